"""Environments for other versions of PySpark, each of its own: made once for a machine, in the temporary folder.

An environment has the packages that it is made for; everything else is that of this interpreter, but not skyband, which
only the import path has. Two processes may ask for one at the same time: the first one makes it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import zlib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")


def environment(*packages: str) -> Path:
    """Return the Python of an environment with these packages."""
    here = sysconfig.get_paths()["purelib"]
    mark = f"{zlib.crc32(' '.join([*packages, sys.version, here]).encode()):08x}"
    home = Path(tempfile.gettempdir()) / f"skyband-test-python-{os.getuid()}-{mark}"
    home.mkdir(exist_ok=True)
    python = home / "bin" / "python"
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            print(f"an environment with {', '.join(packages)} in {home}")
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            own = next((home / "lib").glob("python*/site-packages"))
            (own / "others.pth").write_text(here + "\n")
            # PySpark is built from its source archive, with the setuptools of this interpreter
            options = ["-q", "--no-compile", "--no-build-isolation", "--ignore-installed"]
            if packages:
                subprocess.run([str(python), "-m", "pip", "install", *options, *packages], check=True)
            (home / "done").touch()
    return python


def run(
    python: Path, *arguments: str, folder: Path, own: bool = True, timeout: float = 600
) -> subprocess.CompletedProcess[str]:
    """Run a command of an environment, with skyband on the import path or without it."""
    return subprocess.run(
        [str(python), *arguments],
        cwd=folder,
        env=surroundings(python, own),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def surroundings(python: Path, own: bool = True) -> dict[str, str]:
    """Return the variables of a process of an environment: those of this process, but for the import path."""
    from skyband.spark.session.java import find_java

    ours = {**os.environ, "JAVA_HOME": str(find_java()), "SPARK_LOCAL_IP": "127.0.0.1"}
    ours.pop("SPARK_HOME", None)
    ours.pop("PYTHONPATH", None)
    if own:
        ours["PYTHONPATH"] = str(SOURCE)
    return {**ours, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}


def packed(python: Path, folder: Path) -> Path:
    """An archive with a Python that has skyband: here a command that calls one, with the package beside it."""
    (folder / "python").write_text(
        '#!/bin/sh\nhome=$(cd "$(dirname "$0")/.." && pwd)\n'
        f'PYTHONPATH="$home/packages:$PYTHONPATH" exec "{python}" "$@"\n'
    )
    (folder / "python").chmod(0o755)
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(folder / "python", "bin/python")
        file.add(SOURCE / "skyband", "packages/skyband")
    return archive
