"""The kernels once more, in a process of its own: as plain Python, where they give the same and coverage can see them,
and compiled with a check of every index, since numba's arrays have none: what is written beyond one may be another
list's, and nobody notices for a while."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = [
    "tests/algorithms/test_contract.py",
    "tests/algorithms/test_heightmap.py",
    "tests/algorithms/test_lazy.py",
    "tests/algorithms/test_pa.py::test_certificates_never_lie",
    "tests/algorithms/test_pairs_algorithms.py",
    "tests/algorithms/test_sma.py",
    "tests/algorithms/test_snn.py",
    "tests/algorithms/test_tma.py",
    "tests/algorithms/test_tsl.py",
    "tests/papers/test_002.py::test_table_vi",
    "tests/papers/test_002.py::test_table_vii",
    "tests/structures",
    "tests/test_beginnings.py",
    "tests/test_correlated.py",
    "tests/test_grouped.py",
    "tests/test_joined.py",
    "tests/test_many_queries.py",
    "tests/test_nearest.py",
    "tests/test_pairs.py",
    "tests/test_promises.py",
    "tests/test_rejecting.py",
    "tests/test_updates.py",
    "tests/test_windowed.py",
    "tests/test_oracle_equality.py::test_one_question",
    "tests/test_oracle_equality.py::test_shapes_at_length",
    "tests/test_approximate.py::test_generated_and_plain_kernels_do_the_same",
    "tests/test_approximate.py::test_certified_answers_are_the_oracles",
    "tests/test_sift.py::test_sifted_parts_equal_the_oracle",
]
CHECKED = [
    "tests/algorithms", "tests/structures", "tests/test_approximate.py", "tests/test_beginnings.py",
    "tests/test_correlated.py", "tests/test_grouped.py", "tests/test_joined.py", "tests/test_machine.py",
    "tests/test_many_queries.py", "tests/test_nearest.py", "tests/test_oracle_equality.py", "tests/test_pairs.py",
    "tests/test_promises.py", "tests/test_sift.py", "tests/test_updates.py", "tests/test_windowed.py",
]  # fmt: skip


def run(minutes: int, tests: list[str], **environment: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60 * minutes,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.mark.soak
@pytest.mark.timeout(3600)  # make coverage runs it, too
def test_everything_holds_without_compiling() -> None:
    long = (
        "memory or million or 1-100 or at_length or weights_of_all_signs"  # row by row they take minutes each
    )
    short = ["-n", "2", "--dist", "loadfile", "--timeout=0", "-k", f"not ({long})"]
    run(60, [*short, *TESTS], NUMBA_DISABLE_JIT="1", SKYBAND_EXAMPLES="3")


@pytest.mark.soak
def test_no_kernel_reaches_beyond_its_arrays() -> None:
    run(60, ["--timeout=0", *CHECKED], NUMBA_BOUNDSCHECK="1", NUMBA_OPT="1")
