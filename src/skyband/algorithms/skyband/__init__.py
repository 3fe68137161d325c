"""Top-k rows by candidate lists: the strict k-skyband (`sa`), the relaxed one (`ra`), one list for many k and windows
(`lazy`), and every row beyond a bound (`threshold`)."""
