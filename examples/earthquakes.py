"""Two earthquakes near in place and time: what may be an aftershock of what.

Rows come late here: stations report when they can. A pair counts from the moment its second row is known, in the place
that its time gives it, and the answers are those that rows in order would have given.
"""

import random

import skyband as sb


def quakes(count: int, seed: int = 4) -> list[dict[str, object]]:
    """Quakes all over a map, and one series close together; in the order in which they were reported."""
    chance = random.Random(seed)
    rows: list[dict[str, object]] = []
    for number in range(count):
        day = number / 10
        if number % 60 in (30, 31):
            place = (70.0 + chance.random() * 0.2, 30.0 + chance.random() * 0.2)
        else:
            place = (chance.uniform(0, 100), chance.uniform(0, 100))
        size = 3 + chance.expovariate(1.5)
        rows.append({"day": day, "x": place[0], "y": place[1], "magnitude": round(size, 1)})
    rows.sort(key=lambda row: float(str(row["day"])) + chance.random() * 2)  # up to two days late
    return rows


def main() -> list[tuple[float, float]]:
    monitor = sb.Monitor(time="day")
    near = monitor.watch(
        "SELECT a.day, b.day, a.magnitude, b.magnitude FROM q a, q b WHERE a.magnitude >= 3.2 AND b.magnitude >= 3.2 "
        "ORDER BY dist(a.x, a.y, b.x, b.y) + 5 * abs(a.day - b.day) LIMIT 3 WINDOW 30 SECONDS",
        name="near",
    )  # days are plain numbers here, and a number of a time column counts as seconds
    rows = quakes(1200)
    for begin in range(0, len(rows), 25):
        monitor.push(rows[begin : begin + 25])
    print(near.explain().counters["late rows"], "reports came late")
    found = [(row["a.day"], row["b.day"]) for row in near.top().to_pylist()]
    for one, other in found:
        print(f"day {one:.1f} and day {other:.1f}")
    return found


if __name__ == "__main__":
    main()
