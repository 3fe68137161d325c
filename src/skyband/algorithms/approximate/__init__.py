"""Top-k rows with a bounded error: `pa` keeps fewer candidates and certifies the answers that are exact for sure."""
