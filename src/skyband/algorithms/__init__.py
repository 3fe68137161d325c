"""The algorithms, by name. Adding one is a file and a line here (CONTRIBUTING, "how to add an algorithm").

In reading order: base (the contract, and what candidate lists share), arrivals (a step's rows), window_base (what
algorithms that keep the window's rows share), parallel_insert (several threads); then a folder for each group of them.
"""

from skyband.algorithms.approximate.pa import PA
from skyband.algorithms.arrivals import Arrivals
from skyband.algorithms.base import ListAlgorithm
from skyband.algorithms.buffered.variants import RAPF, RARF, RASF, SAPF, SARF, SASF
from skyband.algorithms.contract import Algorithm, Card, Workload
from skyband.algorithms.grid.cpm import CPM
from skyband.algorithms.grid.sma import SMA
from skyband.algorithms.grid.tma import TMA
from skyband.algorithms.heightmap.family import HeightMap
from skyband.algorithms.nearest.snn import SNN
from skyband.algorithms.objects.correlated import Correlated
from skyband.algorithms.objects.eaa import EAA
from skyband.algorithms.objects.sla import SLA
from skyband.algorithms.objects.sums import Sums
from skyband.algorithms.pairs.baselines import Basic, Naive
from skyband.algorithms.pairs.kd import KD
from skyband.algorithms.pairs.scase import SCase
from skyband.algorithms.pairs.ta import TA
from skyband.algorithms.scan.scan import Scan
from skyband.algorithms.skyband.lazy import Lazy
from skyband.algorithms.skyband.ra import RA
from skyband.algorithms.skyband.sa import SA
from skyband.algorithms.skyband.threshold import Threshold
from skyband.algorithms.sorted_lists.tsl import TSL
from skyband.algorithms.window_base import WindowAlgorithm

_PLAIN: tuple[type[ListAlgorithm], ...] = (SA, RA, Lazy, PA, Threshold)
_BUFFERED: tuple[type[ListAlgorithm], ...] = (SASF, SARF, SAPF, RASF, RARF, RAPF)
LISTS: dict[str, type[ListAlgorithm]] = {kind.card.name: kind for kind in (*_PLAIN, *_BUFFERED)}
WINDOWED: dict[str, type[WindowAlgorithm]] = {
    kind.card.name: kind for kind in (TSL, TMA, SMA, HeightMap, CPM, SNN, Scan)
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
