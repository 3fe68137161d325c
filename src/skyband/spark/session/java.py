"""Find a Java that Spark can run on.

Spark itself looks in two places: `JAVA_HOME`, else the `java` that comes first on the path. That fails on many
machines where a fitting Java is installed all the same, only not first: an old Java 8 on the path for some other
program, a JDK that SDKMAN or Homebrew put in a folder of its own. So we look where installers put them, read each
one's version from the `release` file that every JDK carries (no process to start), and take the best:

1. `JAVA_HOME`, if it is new enough: the user has said what they want;
2. the `java` on the path, if it is new enough;
3. of the rest the one that Spark's own tests know best: 17, then 21, then 25, then any other from 17 on.

`find_java()` gives the folder that `JAVA_HOME` must name before the Spark session starts; it changes nothing itself.
Only the standard library is used here: `make` asks this module before it has installed anything.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from skyband.core.errors import InputError

OLDEST = 17
"""The oldest Java that Spark 4.3 starts on."""

_KNOWN = (17, 21, 25)
_EXECUTABLE = "java.exe" if os.name == "nt" else "java"


def find_java() -> Path:
    """The home folder of a Java that Spark can run on; an InputError says in one sentence what to do if none is."""
    too_old: list[str] = []
    for home in _asked_for():
        version = java_version(home)
        if version is not None and version >= OLDEST:
            return home
        if version is not None:
            too_old.append(f"Java {version} in {home}")
    found = [(version, home) for home in _installed() if (version := java_version(home)) is not None]
    fitting = [(_preference(version), home) for version, home in found if version >= OLDEST]
    if fitting:
        return min(fitting, key=lambda pair: pair[0])[1]
    too_old += [f"Java {version} in {home}" for version, home in found]
    advice = (
        "install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; "
        "macOS: brew install openjdk@17), or set JAVA_HOME to the folder of one"
    )
    if too_old:
        raise InputError(f"Spark needs Java {OLDEST} or newer, and here is only {too_old[0]}: {advice}.")
    raise InputError(f"Spark needs Java {OLDEST} or newer, and there is none here: {advice}.")


def java_version(home: Path) -> int | None:
    """The major version of the Java in this folder, or None if there is none that starts."""
    executable = home / "bin" / _EXECUTABLE
    if not os.access(executable, os.X_OK):
        return None
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
        match = re.search(r'^JAVA_VERSION="?([^"\s]+)', text, re.MULTILINE)
    except OSError:
        match = None
    if match is None:
        match = re.search(r'version "([^"]+)"', _output([str(executable), "-version"]))
    return None if match is None else _major(match.group(1))


def _major(version: str) -> int | None:
    # Up to Java 8 the version was written 1.8.0_292; from 9 on it is 17.0.15 or 21-ea.
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return None
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _preference(version: int) -> tuple[int, int]:
    return (_KNOWN.index(version), 0) if version in _KNOWN else (len(_KNOWN), version)


def _asked_for() -> Iterator[Path]:
    """What the user's own environment points at."""
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if command := shutil.which("java"):
        # The command on the path is mostly a chain of links that ends in <home>/bin/java.
        yield Path(command).resolve().parent.parent


def _installed() -> Iterator[Path]:
    """Where installers put a Java: Linux packages, SDKMAN, Homebrew, macOS, Gradle, IntelliJ, Windows."""
    user = Path.home()
    patterns = [
        (Path("/usr/lib/jvm"), "*"),
        (Path("/usr/java"), "*"),
        (Path("/opt"), "*/bin/java"),
        (Path("/opt/java"), "*"),
        (Path("/opt/homebrew/opt"), "openjdk*"),
        (Path("/usr/local/opt"), "openjdk*"),
        (Path("/home/linuxbrew/.linuxbrew/opt"), "openjdk*"),
        (Path("/Library/Java/JavaVirtualMachines"), "*/Contents/Home"),
        (user / "Library/Java/JavaVirtualMachines", "*/Contents/Home"),
        (user / ".sdkman/candidates/java", "*"),
        (user / ".asdf/installs/java", "*"),
        (user / ".local/share/mise/installs/java", "*"),
        (user / ".jdks", "*"),
        (user / ".jabba/jdk", "*"),
        (user / ".gradle/jdks", "*"),
        (Path("C:/Program Files/Java"), "*"),
        (Path("C:/Program Files/Eclipse Adoptium"), "*"),
    ]
    for folder, pattern in patterns:
        try:
            found = sorted(folder.glob(pattern))
        except OSError:
            continue
        for path in found:
            yield path.parent.parent if path.name == "java" and path.is_file() else path
    if sys.platform == "darwin":
        home = _output(["/usr/libexec/java_home", "-v", f"{OLDEST}+"]).strip()
        if home.startswith("/"):
            yield Path(home.splitlines()[0])


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


if __name__ == "__main__":
    try:
        print(find_java())
    except InputError as error:
        print(f"skyband: {error}", file=sys.stderr)
        sys.exit(1)
