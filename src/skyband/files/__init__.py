"""Files of rows: CSV, JSON lines, Parquet and standard input, one way to read them all."""

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
