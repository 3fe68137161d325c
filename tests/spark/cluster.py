"""The standalone cluster that tests run pipelines on."""

from skyband.spark.standalone import Cluster

__all__ = ["Cluster"]
