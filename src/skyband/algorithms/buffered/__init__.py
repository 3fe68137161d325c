"""The six buffered algorithms `sasf` to `rapf`: a buffer of recent rows delays and filters what enters a skyband.

Files in reading order: variants (the names and their cards), base (buffer, filters and skybands in one step), filters
(strict, relaxed and probable filters), probabilistic_filter (how rows enter a probable one), transfer (from a filter to
the skyband, in compiled code).
"""
