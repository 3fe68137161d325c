"""Files of rows: CSV, JSON lines, Parquet and standard input, one way to read them all.

In reading order: reader (opens a file), source (its bytes), rows (what comes out: a table, and the rows that could not
be read), csvtext, jsontext.
"""

from skyband.files.csvtext import header_of, infer_csv, parse_csv
from skyband.files.jsontext import infer_json, parse_json_lines
from skyband.files.reader import Reader, open_rows
from skyband.files.rows import BadRow, Chunk, cut

__all__ = [
    "BadRow",
    "Chunk",
    "Reader",
    "cut",
    "header_of",
    "infer_csv",
    "infer_json",
    "open_rows",
    "parse_csv",
    "parse_json_lines",
]
