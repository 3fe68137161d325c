"""`skyband verify`: a pipeline's input through the brute force, compared with its output.

In reading order: compare (the whole), again (the input once more), brute and brute_answers (the reference), due (the
changes that it expects), outputs (what was written).
"""

from __future__ import annotations

from .compare import Report, verify_pipeline

__all__ = ["Report", "verify_pipeline"]
