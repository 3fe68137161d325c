"""In CI a test that was skipped is a test that failed.

On a laptop without Java the Spark tests skip themselves, and that is right. In CI (`CI=true`) the same skip would
hide a missing service behind a green run, so there the run fails and names what was skipped.

Kernels are compiled at their first call, not beside, so that the same algorithms answer in every run.

And Ctrl-C works, also where the whole run was started in the background. A shell starts background jobs with the
interrupt signal ignored, every process that they start inherits that, and the tests that press Ctrl-C would wait
for ever.
"""

from __future__ import annotations

import os
import signal

import pytest

os.environ.setdefault("SKYBAND_COMPILE", "now")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _skipped(config: pytest.Config) -> list[pytest.TestReport | pytest.CollectReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return [] if reporter is None else reporter.stats.get("skipped", [])


def _in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if _in_ci() and session.exitstatus == pytest.ExitCode.OK and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if _in_ci() and (count := len(_skipped(config))):
        terminalreporter.write_line(f"CI: {count} skipped, and a skip counts as a failure here.", red=True)
