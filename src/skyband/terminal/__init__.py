"""What people see: results, progress bars, and the live views of hello, run and demo.

In reading order: replay (a file through a monitor), output (tables, JSON, CSV), progress; pipeline and panels (run and
demo); serving; hello, its stream (flows), its leaderboard (board) and its frames (scene); keys, quick (a fast start).
"""
