"""What is asked: queries as frozen values, the SQL that makes them, and the expressions inside them."""
