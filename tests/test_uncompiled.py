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
    "tests/algorithms/heightmap/test_heightmap.py",
    "tests/algorithms/skyband/test_lazy.py",
    "tests/algorithms/approximate/test_pa.py::test_certificates_never_lie",
    "tests/algorithms/pairs/test_pair_algorithms.py",
    "tests/algorithms/grid/test_sma.py",
    "tests/algorithms/nearest/test_snn.py",
    "tests/algorithms/grid/test_tma.py",
    "tests/algorithms/sorted_lists/test_tsl.py",
    "tests/papers/test_002.py::test_table_vi",
    "tests/papers/test_002.py::test_table_vii",
    "tests/compiling/test_intrinsics.py",
    "tests/algorithms/kernels",
    "tests/algorithms/buffered",
    "tests/algorithms/objects",
    "tests/algorithms/approximate/test_certificate.py",
    "tests/algorithms/approximate/test_order_test.py",
    "tests/algorithms/heightmap/test_block_maps.py",
    "tests/algorithms/heightmap/test_cell_filter.py",
    "tests/algorithms/heightmap/test_float32_filter.py",
    "tests/algorithms/heightmap/test_map_set.py",
    "tests/algorithms/heightmap/test_refill.py",
    "tests/algorithms/grid/test_cells.py",
    "tests/algorithms/nearest/test_arrival_lists.py",
    "tests/algorithms/sorted_lists/test_lists.py",
    "tests/engine/test_beginnings.py",
    "tests/engine/test_grouped.py",
    "tests/engine/test_joined.py",
    "tests/engine/test_many_queries.py",
    "tests/engine/test_nearest.py",
    "tests/engine/test_pairs.py",
    "tests/engine/test_promises.py",
    "tests/engine/test_batch_filter.py",
    "tests/engine/test_updates.py",
    "tests/engine/test_windowed.py",
    "tests/test_oracle_equality.py::test_one_question",
    "tests/test_oracle_equality.py::test_shapes_at_length",
    "tests/engine/test_approximate.py::test_generated_and_plain_kernels_do_the_same",
    "tests/engine/test_approximate.py::test_certified_answers_are_the_oracles",
    "tests/engine/test_pruning.py::test_sifted_parts_equal_the_oracle",
]
CHECKED = [
    "tests/algorithms",
    "tests/compiling/test_intrinsics.py",
    "tests/engine/test_approximate.py",
    "tests/engine/test_beginnings.py",
    "tests/engine/test_grouped.py",
    "tests/engine/test_joined.py",
    "tests/test_machine.py",
    "tests/engine/test_many_queries.py",
    "tests/engine/test_nearest.py",
    "tests/test_oracle_equality.py",
    "tests/engine/test_pairs.py",
    "tests/engine/test_promises.py",
    "tests/engine/test_pruning.py",
    "tests/engine/test_updates.py",
    "tests/engine/test_windowed.py",
]


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
