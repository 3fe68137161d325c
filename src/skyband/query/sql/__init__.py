"""SQL to queries: `clauses` reads a statement clause by clause, `parser` makes the query."""
