"""How long a fresh process takes to start: wall-clock time, best of five."""

from __future__ import annotations

import subprocess
import sys
import time


def best(command: list[str], times: int = 5) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    bare = best([sys.executable, "-c", "pass"])
    imported = best([sys.executable, "-c", "import skyband"])
    used = best([sys.executable, "-c", "import skyband; skyband.Monitor"])
    helped = best([sys.executable, "-m", "skyband", "--help"])
    print(f"  python alone         {bare:6.3f} s")
    print(f"  import skyband       {imported:6.3f} s   ({imported - bare:.3f} s more)")
    print(f"  … and its Monitor    {used:6.3f} s   ({used - bare:.3f} s more)")
    print(f"  skyband --help       {helped:6.3f} s")
