"""The query index: for each cell of space the queries that a row in it may concern."""
