"""The page on the server, as a newcomer takes it: its commands work as written, and what goes wrong is said plainly."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.core.errors import SkybandError
from skyband.server.testing import Running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"


def test_the_five_lines(starting: Callable[..., Running], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    started, lines = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    assert started == "skyband serve --time ts\n"
    server = starting(time="ts", data=tmp_path / "skyband-data")
    lines = lines.replace("localhost:8321", server.url)
    script = f'curl() {{ command curl -s "$@"; echo; }}\n{lines}'
    said = ""
    with subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as typed:
        assert typed.stdout is not None
        for line in typed.stdout:  # the last of them follows for ever: as far as the changes of the push
            said += line
            if line.startswith("data: ") and '"score":121.0' in line:
                break
        os.killpg(typed.pid, signal.SIGKILL)
    made, pushed, top, changes = said.split("\n", 3)
    assert json.loads(made)["name"] == "fastest"
    assert json.loads(pushed)["rows"] == 3
    assert [row["car"] for row in json.loads(top)["rows"]] == ["ben", "cat", "ann"]
    assert changes.count("data: ") >= 1 and '"ben"' not in changes and '"score":121.0' in changes
    assert f"journal and snapshots in {tmp_path / 'skyband-data'}" in server.said(), (
        "it says where it keeps them"
    )


def test_another_time_column_than_the_folder_began_with(
    starting: Callable[..., Running], tmp_path: Path
) -> None:
    starting(time="ts", data=tmp_path / "data").stop()
    with pytest.raises(SkybandError, match=r": --time is not that which the journal .* leave it out"):
        starting(time="when", data=tmp_path / "data")


def test_the_last_words_of_a_server_are_waited_for(
    starting: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come through a thread, which on a busy machine may get its turn after the process's end was seen."""

    def late(self: Running) -> None:
        assert self.process.stderr is not None
        words = list(self.process.stderr)
        time.sleep(0.5)
        self.errors.extend(words)

    monkeypatch.setattr(Running, "_hear", late)
    with pytest.raises(SkybandError, match="can be reached from elsewhere: give a file with --tokens"):
        starting(in_memory=True, host="0.0.0.0")
