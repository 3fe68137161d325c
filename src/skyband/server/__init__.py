"""`skyband serve`: the engine over HTTP and WebSocket, and a dashboard.

    connection -> entrance (how many, how slow) -> sockets (HTTP, WebSocket)
    request -> guard (host, token, rate, size) -> body (bytes to columns) -> engine's thread -> answer
                                                                                |
                                                    hub (the last changes) <----+----> every reader at its own pace

One thread owns the monitor and does all its work in order; the event loop only moves bytes. The parts:

    settings   every option and limit, once: the command line, the docs and the checks are made from it
    entrance   accepts connections, counts them, closes those that take too long; logs: what is repeated, once a minute
    guard      which requests are let in: host names, origins, tokens, roles, rates
    encodings  gzip and zstd, within the limit of a body
    bodies     JSON, JSON lines, CSV and Arrow as columns, and which rows could not be read
    service    the engine's thread, and what it answers; pipeline: the same face over a pipeline's output
    allowed    which queries may be asked; problems: what goes wrong, in one shape
    hub        the changes of the last steps; following: how readers follow them; live: the dashboard's state
    numbers    how things stand; lately: the last minute; metrics: for Prometheus; picture: the score-time picture
    endpoints  what all addresses share; routes: one function for each; openapi: their description; files: pages
    app        the application; sockets: connections; run: from start to stop
    client     the other end: `sb.connect(url)`; testing: a server of one's own

Nothing here is imported before a server is started.
"""
