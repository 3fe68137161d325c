"""The algorithms, by name. Adding one is a file and a line here (CONTRIBUTING, "how to add an algorithm")."""

from skyband.algorithms.base import Algorithm, Arrivals, Card, ListAlgorithm
from skyband.algorithms.ra import RA
from skyband.algorithms.sa import SA
from skyband.algorithms.threshold import Threshold

REGISTRY: dict[str, type[ListAlgorithm]] = {kind.card.name: kind for kind in (SA, RA, Threshold)}

__all__ = ["REGISTRY", "Algorithm", "Arrivals", "Card", "ListAlgorithm"]
