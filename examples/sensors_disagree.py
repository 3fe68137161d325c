"""Sensors that disagree: readings taken at nearly the same time that differ in temperature and humidity.

The score is that of the paper, |time| / (|temperature| |humidity|), the least first. Two readings that are equal in one
of the two divide by zero: then the score is infinite and comes last, which is right; and if they were taken at the same
moment it is 0 / 0, no number at all, and such a pair is in no answer. The query need not speak of that.
"""

import random

import skyband as sb


def readings(count: int, seed: int = 3) -> list[dict[str, object]]:
    """Eight sensors in one room, one of which is broken in the end."""
    chance = random.Random(seed)
    rows: list[dict[str, object]] = []
    for number in range(count):
        sensor = number % 8
        broken = sensor == 5 and number > count // 2
        temperature = 20 + round(chance.gauss(0, 0.2), 1) + (6 if broken else 0)
        humidity = 50 + round(chance.gauss(0, 1)) - (12 if broken else 0)
        rows.append(
            {
                "at": float(number // 4),
                "sensor": sensor,
                "temperature": temperature,
                "humidity": float(humidity),
            }
        )
    return rows


def main() -> list[int]:
    monitor = sb.Monitor(time="at")
    watch = monitor.watch(
        "SELECT a.sensor, b.sensor, a.temperature, b.temperature FROM r a, r b WHERE a.sensor <> b.sensor "
        "ORDER BY abs(a.at - b.at) / (abs(a.temperature - b.temperature) * abs(a.humidity - b.humidity)) "
        "LIMIT 10 WINDOW 2 MINUTES",
        name="disagree",
    )
    monitor.push(readings(2000))
    top = watch.top().to_pylist()
    for row in top[:3]:
        print(
            f"sensors {row['a.sensor']} and {row['b.sensor']}: {row['a.temperature']} against {row['b.temperature']}"
        )
    return sorted({row["a.sensor"] for row in top} & {5} | {row["b.sensor"] for row in top} & {5})


if __name__ == "__main__":
    main()
