"""The algorithms, by name. Adding one is a file and a line here (CONTRIBUTING, "how to add an algorithm")."""

from skyband.algorithms.base import Algorithm, Arrivals, Card, ListAlgorithm, Workload
from skyband.algorithms.correlated import Correlated
from skyband.algorithms.cpm import CPM
from skyband.algorithms.eaa import EAA
from skyband.algorithms.filtered import RAPF, RARF, RASF, SAPF, SARF, SASF
from skyband.algorithms.heightmap import HeightMap
from skyband.algorithms.kd import KD
from skyband.algorithms.lazy import Lazy
from skyband.algorithms.pa import PA
from skyband.algorithms.ra import RA
from skyband.algorithms.sa import SA
from skyband.algorithms.scase import SCase
from skyband.algorithms.sla import SLA
from skyband.algorithms.sma import SMA
from skyband.algorithms.snn import SNN
from skyband.algorithms.sums import Sums
from skyband.algorithms.ta import TA
from skyband.algorithms.threshold import Threshold
from skyband.algorithms.tma import TMA
from skyband.algorithms.tsl import TSL
from skyband.algorithms.windowed import WindowAlgorithm
from skyband.algorithms.yardsticks import Basic, Naive

_PLAIN: tuple[type[ListAlgorithm], ...] = (SA, RA, Lazy, PA, Threshold)
_BUFFERED: tuple[type[ListAlgorithm], ...] = (SASF, SARF, SAPF, RASF, RARF, RAPF)
LISTS: dict[str, type[ListAlgorithm]] = {kind.card.name: kind for kind in (*_PLAIN, *_BUFFERED)}
WINDOWED: dict[str, type[WindowAlgorithm]] = {
    kind.card.name: kind for kind in (TSL, TMA, SMA, HeightMap, CPM, SNN)
}
REGISTRY: dict[str, type[ListAlgorithm] | type[WindowAlgorithm]] = {**LISTS, **WINDOWED}
OBJECTS: dict[str, type[Sums]] = {
    kind.card.name: kind for kind in (Sums, EAA, SLA, Correlated)
}  # grouped and joined queries
PAIRS: dict[str, type[SCase]] = {kind.card.name: kind for kind in (SCase, TA, KD, Basic, Naive)}
CARDS: dict[str, Card] = {
    name: kind.card for name, kind in (*REGISTRY.items(), *OBJECTS.items(), *PAIRS.items())
}

__all__ = [
    "CARDS",
    "LISTS",
    "OBJECTS",
    "PAIRS",
    "REGISTRY",
    "WINDOWED",
    "Algorithm",
    "Arrivals",
    "Card",
    "ListAlgorithm",
    "WindowAlgorithm",
    "Workload",
]
