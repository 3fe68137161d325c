"""Prices of one sector that drift apart: the pairs of quotes with the widest spread in the last minute.

Two stocks of one sector usually move together. Where their prices, relative to where each began the day, are far apart,
somebody may want to buy one and sell the other. Rows are quotes; a pair is two quotes of different stocks of one sector
that came within the window, and its score the difference of their logarithms. `ln` is of one row at a time, so it is
computed once for each quote, and rows of other sectors are never looked at.
"""

import math
import random

import skyband as sb

SECTORS = {"banks": ["AAA", "BBB", "CCC"], "energy": ["DDD", "EEE"], "ships": ["FFF", "GGG"]}


def quotes(seconds: int, seed: int = 1) -> list[dict[str, object]]:
    """Stocks that follow their sector, and one that leaves it halfway."""
    chance = random.Random(seed)
    sector_log = dict.fromkeys(SECTORS, 0.0)
    own_log = {stock: 0.0 for stocks in SECTORS.values() for stock in stocks}
    rows: list[dict[str, object]] = []
    for second in range(seconds):
        for sector, stocks in SECTORS.items():
            sector_log[sector] += chance.gauss(0, 0.001)
            for stock in stocks:
                own_log[stock] = 0.9 * own_log[stock] + chance.gauss(0, 0.0005)
                if stock == "EEE" and second > seconds // 2:
                    own_log[stock] += 0.002
                price = 100 * math.exp(sector_log[sector] + own_log[stock])
                rows.append({"at": float(second), "sector": sector, "stock": stock, "price": round(price, 4)})
    return rows


def main() -> list[tuple[str, str, float]]:
    monitor = sb.Monitor(time="at")
    apart = monitor.watch(
        "SELECT a.stock, b.stock, a.price, b.price FROM quotes a, quotes b "
        "WHERE a.sector = b.sector AND a.stock <> b.stock "
        "ORDER BY abs(ln(a.price / 100) - ln(b.price / 100)) DESC LIMIT 5 WINDOW 60 SECONDS",
        name="apart",
    )
    rows = quotes(240)
    for begin in range(0, len(rows), 70):
        monitor.push(rows[begin : begin + 70])
    found = [(row["a.stock"], row["b.stock"], round(row["score"], 4)) for row in apart.top().to_pylist()]
    for one, other, score in found:
        print(f"{one} and {other} are {100 * score:.2f} % apart")
    return found


if __name__ == "__main__":
    main()
