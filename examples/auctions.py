"""Auctions: bids for lots near each other in space whose prices disagree.

The first query of the paper on top-k pairs (Shen, Cheema, Lin, Zhang, Wang 2012): of all pairs of bids in the window
those that are close in two attributes and far apart in what is bid. The score, a distance minus a difference, is made
of differences, so that over a long window `ta` can answer it with sorted lists; here both find the same.
"""

import random

import skyband as sb

SQL = (
    "SELECT a.bidder, b.bidder, a.bid, b.bid FROM bids a, bids b WHERE a.bidder < b.bidder "
    "ORDER BY dist(a.s1, a.s2, b.s1, b.s2) - abs(a.bid - b.bid) LIMIT 3 WINDOW 500 ROWS"
)


def bids(count: int, seed: int = 2) -> list[dict[str, object]]:
    chance = random.Random(seed)
    rows: list[dict[str, object]] = []
    for number in range(count):
        s1, s2 = chance.random(), chance.random()
        worth = 1 + s1 + s2  # what most people think
        bid = worth + chance.gauss(0, 0.02)
        if number % 97 == 0:
            bid = worth * chance.choice([0.4, 1.8])  # and somebody who doesn't
        rows.append({"bidder": f"bidder {number % 50:02}", "s1": s1, "s2": s2, "bid": round(bid, 3)})
    return rows


def main() -> list[tuple[str, str, float]]:
    answers = []
    for algorithm in ("scase", "ta"):
        monitor = sb.Monitor()
        watch = monitor.watch(f"{SQL} WITH (algorithm = '{algorithm}')", name="disagree")
        rows = bids(1500)
        for begin in range(0, len(rows), 100):
            monitor.push(rows[begin : begin + 100])
        answers.append(watch.top())
    assert answers[0].equals(answers[1])
    found = [(row["a.bidder"], row["b.bidder"], round(row["score"], 3)) for row in answers[0].to_pylist()]
    for one, other, score in found:
        print(f"{one} and {other}: near, and {-score:.3f} apart in price")
    return found


if __name__ == "__main__":
    main()
