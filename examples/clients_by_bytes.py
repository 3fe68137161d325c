"""Clients by bytes over several web servers, with the recipe of adding up in chunks first.

Every server logs each request; the question is who downloaded most in the last ten minutes, over all servers. One row
a request is the simple way, a GROUP BY over one stream. With many requests for each client it pays to add up on the
way: every server sends one row for each client and chunk of five seconds, and the rows of all servers are joined. The
same clients lead, with a fraction of the rows; a chunk leaves the window as a whole, so that totals lag by up to one.

    python examples/clients_by_bytes.py
"""

from __future__ import annotations

import random
from collections import defaultdict

import skyband as sb

SERVERS = ("www1", "www2", "www3")
CHUNK = 5.0
Request = tuple[float, str, str, int]


def requests(seconds: int, rng: random.Random) -> list[Request]:
    """Time, server, client, bytes: some clients ask often, and each of them any server."""
    found = []
    for second in range(seconds):
        for _ in range(20):
            client = f"client{int(rng.paretovariate(0.8)) % 500}"
            found.append((second + rng.random(), rng.choice(SERVERS), client, rng.randrange(200, 20_000)))
    return sorted(found)


def chunks(told: list[Request]) -> dict[float, dict[str, dict[str, int]]]:
    """By the end of a chunk and by server: what each client was sent in it."""
    found: dict[float, dict[str, dict[str, int]]] = {}
    for time, server, client, size in told:
        end = (time // CHUNK + 1) * CHUNK
        own = found.setdefault(end, {name: defaultdict(int) for name in SERVERS})
        own[server][client] += size
    return found


def main() -> tuple[list[str], list[str]]:
    told = requests(900, random.Random(5))

    single = sb.Monitor(time="t")
    direct = single.watch(
        "SELECT client, SUM(bytes) FROM log GROUP BY client ORDER BY SUM(bytes) DESC LIMIT 5 WINDOW 10 MINUTES"
    )
    for begin in range(0, len(told), 1000):
        part = told[begin : begin + 1000]
        single.push(
            {"t": [r[0] for r in part], "client": [r[2] for r in part], "bytes": [r[3] for r in part]}
        )

    joined = sb.Monitor(time="t")
    score = " + ".join(f"{server}.bytes" for server in SERVERS)
    joins = SERVERS[0] + "".join(f" FULL JOIN {server} USING (client)" for server in SERVERS[1:])
    watch = joined.watch(f"SELECT client FROM {joins} ORDER BY {score} DESC LIMIT 5 WINDOW 10 MINUTES")
    rows = 0
    for end, servers in sorted(chunks(told).items()):
        for server, clients in servers.items():
            batch = {"t": [end] * len(clients), "client": [*clients], "bytes": [*clients.values()]}
            joined.push(batch, stream=server)
            rows += len(clients)

    print(f"{len(told)} requests, {rows} rows of chunks")
    for one, other in zip(direct.top().to_pylist(), watch.top().to_pylist(), strict=True):
        print(
            f"  {one['client']:<10} {one['score']:>12,.0f}   in chunks: {other['client']:<10} {other['score']:>12,.0f}"
        )
    return direct.top().column("client").to_pylist(), watch.top().column("client").to_pylist()


if __name__ == "__main__":
    main()
