"""Nearest neighbours: `snn` keeps a short list for each query behind a query index."""
