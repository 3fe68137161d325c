"""From SQL to a query: `clauses` reads a statement clause by clause, `parser` makes the query of it."""
