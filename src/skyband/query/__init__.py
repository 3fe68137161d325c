"""Queries as frozen values (`model`), SQL (`sql`) and functions (`builders`) that make them, and their expressions."""
