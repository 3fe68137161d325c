"""The largest flows over all routers in the last 100 seconds, where each router reports on its own time.

A flow passes several routers, and each of them tells its size when it gets to it. The question is about the sum over
all routers of what they told in the window; a router that has told nothing counts as 0. One of the routers lags by 20
seconds and falls silent at the end: what it told leaves with time, and `advance` lets time pass without rows.

    python examples/flows_at_routers.py
"""

from __future__ import annotations

import random

import skyband as sb

ROUTERS = ("zurich", "geneva", "basel")
SQL = """
SELECT flow, zurich.size AS zurich, geneva.size AS geneva, basel.size AS basel
FROM zurich FULL JOIN geneva USING (flow) FULL JOIN basel USING (flow)
ORDER BY zurich.size + geneva.size + basel.size DESC LIMIT 5 WINDOW 100 SECONDS
"""


def reports(router: str, second: int, rng: random.Random) -> list[dict[str, object]]:
    """What one router has seen in one second: a few of the flows that are under way."""
    lag = 20 if router == "basel" else 0
    flows = [f"10.0.0.{rng.randrange(40)}>10.1.0.{rng.randrange(4)}" for _ in range(5)]
    return [
        {"t": float(second - lag), "flow": flow, "size": round(rng.paretovariate(1.5), 2)} for flow in flows
    ]


def main() -> list[str]:
    rng = random.Random(7)
    monitor = sb.Monitor(time="t")
    watch = monitor.watch(SQL, name="largest")
    changes = 0
    for second in range(300):
        for router in ROUTERS:
            if router != "basel" or second < 250:
                changes += monitor.push(reports(router, second, rng), stream=router).num_rows
    print(f"{changes} changes in 300 seconds; the largest flows now:")
    for row in watch.top().to_pylist():
        print(f"  {row['rank']}. {row['flow']:<22} {row['score']:8.2f}  basel {row['basel']:.2f}")
    largest: list[str] = watch.top().column("flow").to_pylist()
    left = monitor.advance(395.0)
    print(
        f"95 seconds of silence later {left.num_rows} changes, and {watch.top().num_rows} flows that are still known"
    )
    return largest


if __name__ == "__main__":
    main()
