"""The page on the server, as a newcomer takes it: its commands work as written, and what goes wrong is said plainly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skyband.errors import SkybandError
from skyband.server.testing import Running

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server.md"


def test_the_five_lines(starting: Callable[..., Running], tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    started, lines = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)[:2]
    assert started == "skyband serve --time ts\n"
    server = starting(time="ts", data=tmp_path / "skyband-data")
    lines = lines.replace("localhost:8321", server.url).replace("curl -N", "curl --max-time 1 -N")
    script = f'curl() {{ command curl -s "$@"; echo; }}\n{lines}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    made, pushed, top, changes = done.stdout.split("\n", 3)
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
