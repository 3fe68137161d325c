"""What `make` says on a machine that lacks something: one sentence, and nothing made or downloaded."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = ["pyproject.toml", "requirements-build.txt", "requirements.txt", "requirements-dev.txt"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone, as far as the set-up looks at it."""
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.parquet"))
    return tmp_path


def setup(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "scripts/setup.sh", *arguments],
        cwd=clone,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def fake_python(clone: Path, script: str) -> str:
    path = clone / "fake-python"
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    return str(path)


def refused(done: subprocess.CompletedProcess[str], clone: Path) -> str:
    assert done.returncode == 1
    assert done.stdout == ""
    assert not (clone / ".venv").exists()
    assert done.stderr.count("\n") == 1
    return done.stderr.strip()


def test_an_old_python(clone: Path) -> None:
    python = fake_python(clone, "echo 3 8 /usr/bin/python3\n")
    assert refused(setup(clone, PYTHON=python), clone) == (
        f"skyband: PYTHON={python} is Python 3.8, and skyband needs Python 3.11 to 3.15: name another one."
    )


def test_no_python_at_that_path(clone: Path) -> None:
    assert refused(setup(clone, PYTHON="/nowhere/python3"), clone) == (
        "skyband: PYTHON=/nowhere/python3 is not a Python that starts: name the path of a Python 3.11 to 3.15."
    )


def test_a_python_without_ensurepip(clone: Path) -> None:
    python = fake_python(clone, f'case "$2" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n')
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert refused(setup(clone, PYTHON=python), clone) == (
        f"skyband: Python {version} has no ensurepip to make a venv with: run 'apt-get install python{version}-venv' "
        "(Debian, Ubuntu), or name another Python with 'make … PYTHON=/path/to/python3'."
    )


def test_no_java_is_said_before_anything_is_downloaded(clone: Path) -> None:
    """A Python that knows no Java stands for a machine that has none: the search itself is tested elsewhere."""
    version = f"{sys.version_info[0]} {sys.version_info[1]}"
    python = fake_python(
        clone,
        'if [ "$1 $2" = "-m skyband.spark.session.java" ]; then echo "skyband: Spark needs Java." >&2; exit 1; fi\n'
        f'if [ "$1" = -c ]; then case "$2" in *executable*) echo {version} "$0"; exit;; esac; fi\n'
        f'exec {sys.executable} "$@"\n',
    )
    assert refused(setup(clone, "run", "java", PYTHON=python), clone) == "skyband: Spark needs Java."


def test_a_second_call_has_nothing_to_do(clone: Path) -> None:
    """The stamp is compared and nothing else: a venv of the same requirements is left as it is."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", ".venv"], cwd=clone, check=True)
    texts = b"".join((clone / name).read_bytes() for name in FILES)
    checksum = subprocess.run(["cksum"], input=texts, capture_output=True, check=True).stdout.decode().strip()
    (clone / ".venv" / "skyband-dev.stamp").write_text(f"{checksum} {clone.resolve()}\n")
    for kind in ("dev", "run"):
        done = setup(clone, kind, PYTHON="")
        assert (done.returncode, done.stdout, done.stderr) == (0, "skyband: .venv is ready.\n", "")


def test_the_scripts_are_plain_shell() -> None:
    for script in ["scripts/setup.sh", ".ci/run"]:
        shell = "bash" if script == ".ci/run" else "sh"
        subprocess.run([shell, "-n", str(ROOT / script)], check=True)
