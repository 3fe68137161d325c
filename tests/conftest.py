"""Two depths: `make test` draws moderate numbers of examples, `make soak` (-m soak) many more of the same.

And an order: where tests are handed out to workers file by file, the long files come first, or at the end one worker
would be at the longest of all while the others have nothing left to do.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from tests import ledger

_COMMON = {
    "deadline": None,
    "report_multiple_bugs": False,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("default", max_examples=16, stateful_step_count=20, **_COMMON)
settings.register_profile("soak", max_examples=500, stateful_step_count=50, **_COMMON)
settings.register_profile("few", max_examples=int(os.environ.get("SKYBAND_EXAMPLES", "8")), **_COMMON)
settings.load_profile("few" if "SKYBAND_EXAMPLES" in os.environ else "default")


LONG = (  # half a minute or more each with all cores taken, longest first
    "tests/project/test_docs.py",
    "tests/engine/test_windowed.py",
    "tests/test_exhaustive.py",
    "tests/server/test_browser.py",
    "tests/spark/test_pipeline.py",
    "tests/cli/test_spark_commands.py",
    "tests/server/test_browser_docs.py",
    "tests/spark/test_kills.py",
    "tests/cli/test_command.py",
    "tests/algorithms/heightmap/test_heightmap.py",
    "tests/spark/dataframe/test_watch_rejects.py",
    "tests/algorithms/grid/test_tma.py",
    "tests/spark/input/test_kafka.py",
    "tests/algorithms/grid/test_sma.py",
    "tests/algorithms/pairs/test_pair_algorithms.py",
    "tests/engine/test_approximate.py",
    "tests/spark/executors/test_executors.py",
    "tests/engine/test_updates.py",
    "tests/spark/test_operations.py",
    "tests/algorithms/test_contract.py",
    "tests/test_oracle_equality.py",
    "tests/papers/test_002_filters.py",
    "tests/benchmarks/test_haghani.py",
    "tests/spark/dataframe/test_watch.py",
    "tests/benchmarks/test_commands.py",
)


def _soaking(config: pytest.Config) -> bool:
    expression = config.getoption("markexpr", "")
    return "soak" in expression and "not soak" not in expression


def pytest_configure(config: pytest.Config) -> None:
    if _soaking(config):
        settings.load_profile("soak")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under -m soak every property is run again at depth, besides the tests that carry the marker."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = {name: number for number, name in enumerate(LONG)}
        items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], len(LONG)))
    if _soaking(config):
        for item in items:
            if is_hypothesis_test(getattr(item, "obj", None)):
                item.add_marker("soak")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under -m soak a test that killed processes is a line of the ledger."""
    report = yield
    if call.when == "call":
        kills = ledger.take()
        if kills and _soaking(item.config):
            seed = getattr(getattr(item, "module", None), "SEED", "")
            ledger.write(item.nodeid, seed, kills, report.outcome)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _soaking(config):
        terminalreporter.write_line(f"kills in {ledger.LEDGER.name}: {ledger.total()} of {ledger.ENOUGH}")
