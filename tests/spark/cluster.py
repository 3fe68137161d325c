"""The standalone cluster that tests run pipelines on."""

from benchmarks.spark.standalone import Cluster

__all__ = ["Cluster"]
