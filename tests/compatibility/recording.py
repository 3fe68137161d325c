"""What a monitor answers to the acts of a scenario, as plain rows; how that is kept in a file, and compared.

A fixture is a zip file: `changes.parquet` has the changes of all steps, `answers.json` the answers, rejects and counts
in the middle and at the end, `saved` what `Monitor.save` wrote in the middle.

The contract leaves open in which order the queries of one step are reported, and in which order rows leave. So both
are sorted here. All else counts: a score is kept as the 64 bits that it is.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from tests.compatibility.scenarios import Act, Ask, Push, Scenario

import skyband as sb

HERE = Path(__file__).parent / "written"
TYPES = {"rank": pa.int32(), "score": pa.float64(), "seq": pa.int64(), "seq_b": pa.int64(), "id": pa.string()}
COLUMNS = ["query", "change", *TYPES, "time"]
KEPT = {"step": pa.int32(), "query": pa.string(), "change": pa.string(), **TYPES, "time": pa.int64()}
KEPT["score"] = pa.int64()  # its bits

Row = tuple[Any, ...]
"""A change as KEPT has it, without the step."""

# A larger k of joined objects holds at once. In 5be4cef the new ranks stayed empty until the older rows had left the
# window: over these steps of a scenario the changes of one query differ, and come to the same answer at their end.
FILLED_AT_ONCE = {
    "streams": ("joined", range(50, 52)),
    "joined-sums-plain": ("max", range(20, 25)),
    "joined-sums-timed": ("max", range(20, 25)),
    "joined-sla-plain": ("max", range(19, 24)),
    "joined-sla-timed": ("max", range(19, 24)),
}


class Record(NamedTuple):
    """What came of a scenario's acts, from one of them on."""

    changes: dict[int, list[Row]]  # by the number of the act
    answers: dict[str, Any]


# -- one step ------------------------------------------------------------------------------------------------


def _bits(column: pa.ChunkedArray) -> list[int | None]:
    """Numbers of 64 bits as whole numbers."""
    values = column.to_pylist()
    return [None if v is None else struct.unpack("<q", struct.pack("<d", v))[0] for v in values]


def rows_of(table: pa.Table) -> list[Row]:
    """A table of changes as rows: queries by name, leaves sorted, enters as they come."""
    assert table.column_names == COLUMNS
    for name, type_ in TYPES.items():
        assert table.schema.field(name).type == type_, name
    time = table["time"]
    times = _bits(time) if pa.types.is_floating(time.type) else time.cast(pa.int64()).to_pylist()
    columns = [table[name].to_pylist() for name in COLUMNS[:-1]]
    columns[3] = _bits(table["score"])
    found: dict[str, tuple[list[Row], list[Row]]] = {}
    for row in zip(*columns, times, strict=True):
        leaves, enters = found.setdefault(row[0], ([], []))
        if row[1] == "leave":
            assert not enters, f'A row leaves "{row[0]}" after others entered.'
            leaves.append(row)
        else:
            assert not enters or enters[-1][2] < row[2], f'"{row[0]}": rows must enter by rank.'
            enters.append(row)
    return [row for name in sorted(found) for row in [*sorted(found[name][0], key=repr), *found[name][1]]]


def shown(table: pa.Table) -> dict[str, Any]:
    """An answer: types and values of its columns."""
    types = {}
    for field in table.schema:
        type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        types[field.name] = str(type_)
    return {"types": types, "rows": [list(row.values()) for row in table.to_pylist()]}


def state_of(monitor: sb.Monitor) -> dict[str, Any]:
    """All that can be asked of a monitor."""
    rejects = monitor.rejects().select(
        ["seq", "stream", "reason", "raw"]
    )  # the detail is a sentence, which may change
    return {
        "now": monitor.now,
        "rows_seen": monitor.rows_seen,
        "rejected": {reason: count for reason, count in monitor.reject_counts.items() if count},
        "updates": {what: count for what, count in monitor.update_counts.items() if count},
        "rejects": shown(rejects),
        "watches": {
            name: {
                "k": watch.k,
                "window": str(watch.window),
                "certified": watch.certified,
                "top": shown(watch.top()),
            }
            for name, watch in monitor.watches.items()
        },
    }


def play(
    scenario: Scenario, monitor: sb.Monitor, first: int = 0, last: int | None = None, keys: bool = False
) -> Record:
    """Do the acts, and write down what came of each. With `keys` each batch has an idempotency key."""
    changes: dict[int, list[Row]] = {}
    answers: dict[str, Any] = {"refused": {}, "asked": {}, "times": {}}
    for number, act in list(enumerate(scenario.acts))[first:last]:
        try:
            table = act.do(monitor, f"batch {number}" if keys else None)
        except (sb.InputError, sb.QueryError) as error:
            assert scenario.refused, f"{called(scenario, number)}: {error}"
            answers["refused"][str(number)] = type(error).__name__
            continue
        if isinstance(act, Ask):
            answers["asked"][str(number)] = shown(table)
        elif table is not None:
            answers["times"][str(number)] = str(table.schema.field("time").type)
            if table.num_rows:
                changes[number] = rows_of(table)
    return Record(changes, plain(answers))


def plain(answers: Any) -> Any:
    """As JSON has it."""
    return json.loads(json.dumps(answers, default=str))


# -- files ---------------------------------------------------------------------------------------------------


def path_of(scenario: Scenario) -> Path:
    return HERE / f"{scenario.name}.zip"


def write_zip(path: Path, parts: Iterable[tuple[str, bytes]]) -> None:
    """The same parts give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)


def write(scenario: Scenario, record: Record, saved: bytes) -> None:
    rows = [(step, *row) for step, found in record.changes.items() for row in found]
    columns = list(zip(*rows, strict=True)) or [()] * len(KEPT)
    arrays = [pa.array(column, type_) for column, type_ in zip(columns, KEPT.values(), strict=True)]
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays, names=list(KEPT)), sink, compression="zstd")
    answers = json.dumps(record.answers, ensure_ascii=False, indent=0)
    write_zip(
        path_of(scenario),
        [("changes.parquet", sink.getvalue()), ("answers.json", answers.encode()), ("saved", saved)],
    )


def journal_path(scenario: Scenario, way: str) -> Path:
    return HERE / "journals" / f"{scenario.name}-{way.replace(' ', '-')}.zip"


def write_journal(path: Path, folder: Path, about: dict[str, Any]) -> None:
    """A journal's folder as one file, with what is to be known of it: `acts` that were taken, `steps` (the offset of
    each act), and the monitor's `state`."""
    files = sorted(file for file in folder.iterdir() if file.name != "lock")
    said = json.dumps(about, ensure_ascii=False, indent=0).encode()
    write_zip(path, [("about.json", said), *((f"journal/{file.name}", file.read_bytes()) for file in files)])


def unpack_journal(scenario: Scenario, way: str, folder: Path) -> dict[str, Any]:
    """The folder as it was left, below `folder`, and what is to be known of it."""
    with zipfile.ZipFile(journal_path(scenario, way)) as archive:
        archive.extractall(folder)
    about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    return about


def read(scenario: Scenario) -> tuple[Record, bytes]:
    """What was written, and the saved file."""
    with zipfile.ZipFile(path_of(scenario)) as archive:
        table = pq.read_table(io.BytesIO(archive.read("changes.parquet")))
        answers, saved = json.loads(archive.read("answers.json")), archive.read("saved")
    rows = zip(*(table[name].to_pylist() for name in KEPT), strict=True)
    changes = {step: [row[1:] for row in found] for step, found in groupby(rows, key=lambda row: row[0])}
    return Record(changes, answers), saved


# -- comparing -----------------------------------------------------------------------------------------------


def called(scenario: Scenario, number: int) -> str:
    """A step's name in messages."""
    act: Act = scenario.acts[number]
    words = type(act).__name__.lower()
    if hasattr(act, "name"):
        words += f' "{act.name}"'
    elif isinstance(act, Push):
        words += f" to {act.stream}" if act.stream else ""
    return f"scenario {scenario.name}, step {number} ({words})"


def _in_words(row: Row | None) -> str:
    if row is None:
        return "nothing"
    score = struct.unpack("<d", struct.pack("<q", row[3]))[0]
    return str(dict(zip(COLUMNS, (*row[:3], score, *row[4:]), strict=True)))


def compare(
    scenario: Scenario, written: Record, found: Record, first: int = 0, last: int | None = None
) -> None:
    """An AssertionError names the scenario, the step and the first row that differs."""
    query, steps = FILLED_AT_ONCE.get(scenario.name, ("", range(0)))
    numbers = range(len(scenario.acts))[first:last]
    for number in numbers:
        rows = [record.changes.get(number, []) for record in (written, found)]
        if number in steps:
            rows = [[row for row in each if row[0] != query] for each in rows]
        pairs = zip_longest(*rows)
        for place, (one, other) in enumerate(pairs):
            if one != other:
                where = f"{called(scenario, number)}, change {place}"
                raise AssertionError(
                    f"{where}: 5be4cef wrote {_in_words(one)}, and now it is {_in_words(other)}"
                )
        for kind in ("refused", "asked", "times"):
            one, other = (record.answers[kind].get(str(number)) for record in (written, found))
            for difference in differences(one, other, kind):
                raise AssertionError(f"{called(scenario, number)}: {difference}")
    if steps and steps[0] in numbers and steps[-1] in numbers:
        one, other = (_folded(record, query, steps) for record in (written, found))
        assert one == other, (
            f'scenario {scenario.name}: after step {steps[-1]} the answers of "{query}" differ'
        )


def _folded(record: Record, query: str, steps: range) -> Counter[Row]:
    """Return what the changes of a query come to over these steps, without ranks."""
    total: Counter[Row] = Counter()
    for number in steps:
        for name, change, _, *entry in record.changes.get(number, ()):
            if name == query:
                total[tuple(entry)] += 1 if change == "enter" else -1
    return Counter({entry: count for entry, count in total.items() if count})


def same_state(scenario: Scenario, where: str, written: Any, monitor: sb.Monitor) -> None:
    for difference in differences(written, plain(state_of(monitor)), where):
        raise AssertionError(f"scenario {scenario.name}: {difference}")


def differences(one: Any, other: Any, path: str) -> Iterator[str]:
    """Where two pieces of JSON differ."""
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        for key in one:
            yield from differences(one[key], other[key], f"{path} / {key}")
    elif isinstance(one, list) and isinstance(other, list):
        for place, (first, second) in enumerate(zip_longest(one, other)):
            if json.dumps(first) != json.dumps(second):
                yield f"{path}, row {place}: 5be4cef wrote {first}, and now it is {second}"
    elif json.dumps(one) != json.dumps(other):
        yield f"{path}: 5be4cef wrote {one}, and now it is {other}"
