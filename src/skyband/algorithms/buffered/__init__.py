"""The six buffered algorithms `sasf` to `rapf`: a buffer of recent rows delays and filters what enters a skyband."""
