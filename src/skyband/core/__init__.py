"""What every room may use: `types`, the order of rows (`order`), `errors`, and the format of saved state (`blob`)."""
