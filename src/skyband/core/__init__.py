"""What every room may use: types and recency (`types`), the order of rows (`order`), errors (`errors`), saved state (`blob`)."""
