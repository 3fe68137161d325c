"""Saved files: whole or refused, the same bytes for the same state, and nothing lost on the way."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.core import blob
from skyband.core.blob import FORMAT


def busy(steps: int = 30) -> sb.Monitor:
    """A monitor with everything in it: two streams, late rows, rejects, retained rows, changed watches."""
    schema = pa.schema([("t", pa.timestamp("us")), ("x", pa.float64()), ("c", pa.string())])
    m = sb.Monitor(time="t", schema={"a": schema, "b": schema}, retain=sb.rows(50), max_ahead="1 hour")
    m.watch("SELECT c FROM a ORDER BY x DESC LIMIT 40 WINDOW 300 ROWS", name="first 'quoted' / ünï")
    m.watch("SELECT * FROM b WHERE x > 0.9 WINDOW 20 SECONDS", name="beyond")
    for i in range(steps):
        feed(m, i)
    m.watch(
        "SELECT x FROM a ORDER BY 2 * x + 1 LIMIT 3 WINDOW 10 SECONDS WITH (algorithm = 'sa')", name="later"
    )
    m.watches["first 'quoted' / ünï"].change(k=60)
    return m


def feed(m: sb.Monitor, i: int) -> list[pa.Table]:
    random = np.random.default_rng(i)
    changes = []
    for stream in ("a", "b"):
        time = 10**15 + i * 10**6 + random.integers(-(10**7), 10**6, 40)
        batch = {
            "t": pa.array(time, pa.timestamp("us")),
            "x": random.random(40).round(2),
            "c": [None if v < 3 else "c" * (v % 5) for v in random.integers(0, 30, 40).tolist()],
        }
        if i % 7 == 3:
            batch["x"] = ["odd", *batch["x"].tolist()[1:]]
        changes.append(m.push(batch, stream=stream))
    return changes


def test_a_busy_monitor_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    m = busy()
    m.save(tmp_path / "saved")
    again = sb.Monitor.load(tmp_path / "saved")
    assert list(again.watches) == list(m.watches)
    for i in range(30, 60):
        for one, other in zip(feed(m, i), feed(again, i), strict=True):
            assert one.equals(other) and one.schema == other.schema
        again = sb.Monitor.from_bytes(again.to_bytes())
        for name, watch in m.watches.items():
            assert watch.top().equals(again.watches[name].top())
            assert plan_of(watch) == plan_of(again.watches[name])
    assert again.rejects().equals(m.rejects())
    assert again.to_bytes() == m.to_bytes()


def plan_of(watch: sb.Watch) -> dict[str, Any]:
    """All that a plan says but for bytes: spare room in buffers is not saved."""
    return {
        key: value for key, value in watch.explain().to_dict().items() if key not in ("bytes", "also_kept")
    }


def test_the_same_state_is_the_same_bytes() -> None:
    assert busy(5).to_bytes() == busy(5).to_bytes()
    data = busy(5).to_bytes()
    assert sb.Monitor.from_bytes(data).to_bytes() == data


def test_watches_that_are_read_again_and_again_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob, "_SEEN", {})
    monkeypatch.setattr(blob, "_READ", {})
    m = busy()
    data = m.to_bytes()
    one, two, three = (sb.Monitor.from_bytes(data) for _ in range(3))
    (entries,) = (
        blob._READ.values()
    )  # the second time they are kept, and what was made of them the third time used
    assert len(entries) == 3 and entries.made is not None
    assert all(again.to_bytes() == data for again in (one, two, three))
    # what is done to one of them is nothing to the others
    two.watches["later"].change(k=2)
    two.drop("beyond")
    changes = feed(three, 30)
    assert all(told.equals(known) for told, known in zip(feed(one, 30), changes, strict=True))
    assert one.to_bytes() == three.to_bytes() != data and sb.Monitor.from_bytes(data).to_bytes() == data
    one._check()
    # the same watches, but another choice of algorithm: nothing is taken for what it isn't
    content = blob.from_bytes(data)
    content["streams"][0]["groups"][0]["options"] = {"slack": 3.0}
    assert sb.Monitor._restore(content).watches["later"].choice.options == {}
    found = sb.Monitor._restore(content).watches["first 'quoted' / ünï"]
    assert found.choice.options == {"slack": 3.0}


def test_entries_that_only_look_like_watches_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob, "_SEEN", {})
    monkeypatch.setattr(blob, "_READ", {})
    for content in (
        {"a": {"b": 1, "watches": [1, 2]}, "c": 3},
        {"a": ', "watches": [1]', "watches": [{"x": ', "watches": [2]'}]},
        {"a": 1, "watches": [], "z": {"n": [3]}},
    ):
        for _ in range(3):
            assert blob.from_bytes(blob.to_bytes(content)) == content


def test_saving_replaces_the_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    path.write_bytes(b"something else")
    busy(2).save(str(path))
    busy(3).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]
    assert sb.Monitor.load(path).rows_seen == 3 * 80


def test_an_empty_monitor_can_be_saved() -> None:
    for m in (sb.Monitor(), sb.Monitor(time="t", retain="5 minutes"), sb.Monitor(time={"a": "t"})):
        again = sb.Monitor.from_bytes(m.to_bytes())
        assert again.to_bytes() == m.to_bytes()
        again.watch("SELECT x FROM a ORDER BY x LIMIT 1 WINDOW 1 ROWS")


def test_numbers_of_numpy_are_numbers() -> None:
    assert blob.from_bytes(blob.to_bytes({"a": np.int64(3), "b": [np.int32(-1)]})) == {"a": 3, "b": [-1]}


DAMAGES = ["cut", "flipped", "empty", "text", "other zip", "other head", "part missing", "newer", "older"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_in_one_sentence(damage: str, tmp_path: Path) -> None:
    data = busy(3).to_bytes()
    path = tmp_path / "saved"
    path.write_bytes(damaged(data, damage))
    with pytest.raises(sb.InputError) as error:
        sb.Monitor.load(path)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400
    assert str(error.value).startswith(f"{path} is ")
    if damage in ("newer", "older"):
        age = "a newer" if damage == "newer" else "another"
        number = FORMAT + 1 if damage == "newer" else FORMAT - 1
        assert (
            f"is in format {number}, of {age} skyband, and this one reads format {FORMAT}: use the version"
            in str(error.value)
        )
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)


def test_a_file_without_a_number_is_of_the_first_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved"
    path.write_bytes(damaged(busy(3).to_bytes(), "no number"))
    monkeypatch.setattr("skyband.core.blob.FORMAT", 1)
    assert sb.Monitor.load(path).rows_seen == 3 * 80
    monkeypatch.setattr("skyband.core.blob.FORMAT", 2)
    with pytest.raises(sb.InputError, match="saved is in format 1, of another skyband"):
        sb.Monitor.load(path)


def damaged(data: bytes, damage: str) -> bytes:
    if damage == "cut":
        return data[: len(data) // 2]
    if damage == "flipped":
        middle = data.find(b"ARROW") if b"ARROW" in data else len(data) // 3
        return (
            data[:middle] + bytes(255 - byte for byte in data[middle : middle + 200]) + data[middle + 200 :]
        )
    if damage in ("empty", "text"):
        return b"" if damage == "empty" else b"SELECT 1"
    source, out = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in source.namelist():
            part = source.read(name)
            if name == "meta.json":
                part = head(part, damage)
            if damage == "other zip" or (damage == "part missing" and name.endswith(".npy")):
                continue
            archive.writestr(name, part)
    return out.getvalue()


def head(part: bytes, damage: str) -> bytes:
    """A file's own description with another format's number, or none."""
    told = json.loads(part)
    assert told["skyband"] == FORMAT
    if damage == "other head":
        return b"[]"
    if damage == "no number":
        del told["skyband"]
    else:
        told["skyband"] += {"newer": 1, "older": -1}.get(damage, 0)
    return json.dumps(told).encode()


def test_a_missing_file_and_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(sb.InputError, match="can't be read"):
        sb.Monitor.load(tmp_path / "nowhere")
    with pytest.raises(sb.InputError, match="can't be written"):
        sb.Monitor().save(tmp_path / "no" / "folder")
