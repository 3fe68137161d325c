"""`/metrics`: the numbers of a moment, as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from skyband.server.numbers import BUCKETS

if TYPE_CHECKING:
    from skyband.server.pipeline import PipelineService
    from skyband.server.service import Service

    Source = Service | PipelineService

TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text(service: Source) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Now(service))
    return generate_latest(registry)


class _Now(Collector):
    """The numbers when it is asked."""

    def __init__(self, service: Source) -> None:
        self.service = service

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        stats, numbers = self.service.stats(), self.service.numbers
        yield _counter("skyband_rows", "Rows that were pushed, rejects included.", stats["rows"])
        yield _counter("skyband_changes", "Changes that were reported.", numbers.changes)
        yield _counter("skyband_steps", "Steps since the start.", numbers.steps)
        yield _counter("skyband_body_bytes", "Bytes of rows that were received.", numbers.bytes)
        yield _counter("skyband_missed", "Readers that missed changes and got the answers.", stats["missed"])
        rejects = CounterMetricFamily("skyband_rejects", "Rejected rows by reason.", labels=["reason"])
        for reason, count in stats["rejects"].items():
            rejects.add_metric([reason], count)
        yield rejects
        requests = CounterMetricFamily("skyband_requests", "Answered requests.", labels=["method", "status"])
        for (method, status), count in sorted(numbers.requests.copy().items()):
            requests.add_metric([method, str(status)], count)
        yield requests
        yield _gauge("skyband_offset", "The number of the last step.", stats["offset"])
        yield _gauge("skyband_queries", "Queries that are watched.", stats["queries"])
        yield _gauge("skyband_subscribers", "Readers of changes.", stats["subscribers"])
        yield _gauge("skyband_waiting_steps", "Steps that wait to be taken.", stats["waiting"])
        yield _gauge("skyband_state_rows", "Rows that are kept for the queries.", stats["state_rows"])
        yield _gauge("skyband_state_bytes", "Bytes that they take.", stats["state_bytes"])
        yield _gauge("skyband_window_rows", "Rows of the largest window.", stats["window_rows"])
        yield self._pushes()

    def _pushes(self) -> Metric:
        numbers = self.service.numbers
        counts = list(numbers.buckets)
        edges = [str(edge) for edge in BUCKETS] + ["+Inf"]
        sums = [sum(counts[: place + 1]) for place in range(len(counts))]
        return HistogramMetricFamily(
            "skyband_push_seconds",
            "Seconds from a push's first byte to its answer.",
            buckets=list(zip(edges, sums, strict=True)),
            sum_value=numbers.seconds,
        )


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value=value)


def _gauge(name: str, help: str, value: float | None) -> Metric:
    return GaugeMetricFamily(name, help, value=float(value or 0))
