"""The fastest vehicles over several cameras, with promises about what may yet be seen.

Each camera reads number plates and speeds. A vehicle's score is the sum of its speeds at the cameras that it passed in
the last half hour, so that who speeds everywhere comes first. No speed is above 180, and a vehicle passes a camera
once: with these promises `eaa` removes readings that can't matter any more, and stays exact; `correlated` also
estimates how likely a vehicle is to pass the cameras that haven't seen it, keeps less, and may miss one.

    python examples/fastest_vehicles.py
"""

from __future__ import annotations

import random

import skyband as sb

CAMERAS = ("north", "bridge", "tunnel", "south")
SCORE = " + ".join(f"{camera}.speed" for camera in CAMERAS)
JOINS = CAMERAS[0] + "".join(f" FULL JOIN {camera} USING (plate)" for camera in CAMERAS[1:])
PROMISE = "range = '0..180', appears = 'once'"


def question(algorithm: str, more: str = "") -> str:
    return (
        f"SELECT plate FROM {JOINS} ORDER BY {SCORE} DESC LIMIT 3 WINDOW 30 MINUTES "
        f"WITH (algorithm = '{algorithm}', {PROMISE}{more})"
    )


def readings(vehicles: int, rng: random.Random) -> list[tuple[float, str, str, float]]:
    """Vehicles start one after the other, each on a stretch of the road, and pass its cameras some minutes apart."""
    found = []
    for number in range(vehicles):
        time, first, usual = number * 2.0, rng.randrange(2), rng.gauss(110, 15)
        for camera in CAMERAS[first : 4 if rng.random() < 0.7 else first + 1]:
            found.append((time, camera, f"ZH {number:04d}", round(min(180.0, rng.gauss(usual, 10)), 1)))
            time += rng.uniform(60, 400)
    return sorted(found)


def main() -> tuple[int, int]:
    monitor = sb.Monitor(time="t")
    exact = monitor.watch(question("eaa"), name="exact")
    likely = monitor.watch(question("correlated", ", sample = 1"), name="likely")
    read = readings(2000, random.Random(3))
    for begin in range(0, len(read), 200):
        for camera in CAMERAS:
            rows = [
                {"t": time, "plate": plate, "speed": speed}
                for time, where, plate, speed in read[begin : begin + 200]
                if where == camera
            ]
            monitor.push(rows, stream=camera)
    for row in exact.top().to_pylist():
        print(f"  {row['rank']}. {row['plate']}  {row['score']:.1f}")
    for watch in (exact, likely):
        did = watch.explain().counters
        print(
            f"{watch.name}: {did['instances removed']} of {len(read)} instances removed before they expired"
        )
    print(next(note for note in likely.explain().notes if "measured" in note))
    return exact.explain().counters["instances removed"], likely.explain().counters["instances removed"]


if __name__ == "__main__":
    main()
