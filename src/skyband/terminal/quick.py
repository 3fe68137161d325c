"""Start-up that a person doesn't wait for."""

from __future__ import annotations

import sys
from typing import Any


class _NoPandas:
    """Finds no pandas, and leaves every other module to the finders after it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def without_pandas() -> None:
    """Keep Arrow from loading pandas, where it is installed and not needed: it takes most of a second.

    Arrow looks for pandas once, at the first array that it makes from Python values. Here it looks while
    there is none to be found; afterwards pandas is there again for code that imports it by name.
    """
    import pyarrow as pa

    blind: Any = _NoPandas()
    sys.meta_path.insert(0, blind)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(blind)
