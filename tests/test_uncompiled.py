"""The kernels once more as plain Python, in a process of its own: they give the same, and coverage can see them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "tests/algorithms/test_contract.py",
    "tests/algorithms/test_pa.py::test_certificates_never_lie",
    "tests/papers/test_002.py::test_table_vi",
    "tests/papers/test_002.py::test_table_vii",
    "tests/test_beginnings.py",
    "tests/test_many_queries.py",
    "tests/test_oracle_equality.py::test_one_question",
    "tests/test_oracle_equality.py::test_shapes_at_length",
    "tests/test_approximate.py::test_generated_and_plain_kernels_do_the_same",
    "tests/test_approximate.py::test_certified_answers_are_the_oracles",
    "tests/test_sift.py::test_sifted_parts_equal_the_oracle",
]


@pytest.mark.soak
def test_everything_holds_without_compiling() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "SKYBAND_EXAMPLES": "8"}
    short = ["-k", "not memory and not 1-100"]  # long runs, row by row
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *short, *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
