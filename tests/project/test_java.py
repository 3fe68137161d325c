"""The search for a Java, over folders that look like Java installations."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from skyband.core.errors import InputError
from skyband.spark.session import java


def jdk(home: Path, version: str | None, says: str = "") -> Path:
    """A folder with bin/java and, if a version is given, the `release` file that JDKs carry."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    command.chmod(0o755)
    if version is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """A machine with no Java at all; put homes into the list to install them off the path."""
    installed: list[Path] = []
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(empty))
    monkeypatch.setattr(java, "_installed", lambda: iter(installed))
    return installed


@pytest.mark.parametrize(
    ("text", "major"),
    [("1.8.0_292", 8), ("11.0.21", 11), ("17.0.15", 17), ("21", 21), ("25-ea", 25), ("unknown", None)],
)
def test_versions(tmp_path: Path, text: str, major: int | None) -> None:
    assert java.java_version(jdk(tmp_path / "a", text)) == major


def test_without_a_release_file_java_itself_is_asked(tmp_path: Path) -> None:
    assert java.java_version(jdk(tmp_path / "a", None, 'openjdk version "21.0.4" 2024-07-16')) == 21
    assert java.java_version(jdk(tmp_path / "b", None, "No Java runtime present")) is None
    assert java.java_version(tmp_path / "nowhere") is None


def test_java_home_comes_first(machine: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.append(jdk(tmp_path / "17", "17.0.1"))
    chosen = jdk(tmp_path / "22", "22.0.1")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert java.find_java() == chosen


def test_an_old_java_on_the_path_is_passed_over(
    machine: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = jdk(tmp_path / "8", "1.8.0_292")
    monkeypatch.setenv("PATH", str(old / "bin"))
    machine += [
        old,
        jdk(tmp_path / "26", "26"),
        jdk(tmp_path / "21", "21.0.1"),
        jdk(tmp_path / "17", "17.0.1"),
    ]
    assert java.find_java() == tmp_path / "17"


def test_a_link_on_the_path_leads_home(
    machine: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = jdk(tmp_path / "17", "17.0.1")
    links = tmp_path / "usr"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert java.find_java() == home


def test_where_installers_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real search, in a home folder that SDKMAN and IntelliJ have been to."""
    monkeypatch.setenv("HOME", str(tmp_path))
    homes = [
        jdk(tmp_path / ".sdkman/candidates/java/17.0.1-tem", "17.0.1"),
        jdk(tmp_path / ".jdks/openjdk-21", "21"),
    ]
    assert set(homes) <= set(java._installed())


def test_a_java_home_without_a_java(
    machine: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.append(jdk(tmp_path / "17", "17.0.1"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java.find_java() == tmp_path / "17"


def test_a_mac_is_asked_where_it_keeps_its_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert java._output([str(tmp_path / "no command")]) == ""
    said = {"/Library/Java/one\n": True, "Unable to find any JVMs\n": False}
    for text, found in said.items():
        monkeypatch.setattr(java, "_output", lambda command, text=text: text)
        assert (Path("/Library/Java/one") in set(java._installed())) is found


def test_no_java(machine: list[Path]) -> None:
    with pytest.raises(InputError) as error:
        java.find_java()
    assert str(error.value) == (
        "Spark needs Java 17 or newer, and there is none here: install Java 17 or 21 (Debian, Ubuntu: apt-get install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME to the folder of one."
    )


def test_only_an_old_java(machine: list[Path], tmp_path: Path) -> None:
    machine.append(jdk(tmp_path / "11", "11.0.2"))
    with pytest.raises(
        InputError, match=r"^Spark needs Java 17 or newer, and here is only Java 11 in .*/11: install "
    ):
        java.find_java()


def test_as_a_command(tmp_path: Path) -> None:
    home = jdk(tmp_path / "17", "17.0.1")
    done = subprocess.run(
        [sys.executable, "-m", "skyband.spark.session.java"],
        env={**os.environ, "JAVA_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{home}\n"


def test_as_a_command_where_there_is_none(
    machine: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run by name the module is made anew, so its folders themselves have to look empty."""
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    monkeypatch.delitem(sys.modules, "skyband.spark.session.java")
    with pytest.raises(SystemExit, match="1"):
        runpy.run_module("skyband.spark.session.java", run_name="__main__")
    assert capsys.readouterr().err.startswith("skyband: Spark needs Java 17 or newer, and there is none here")
