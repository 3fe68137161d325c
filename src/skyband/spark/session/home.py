"""Where Spark finds itself: a home without the archive that its Python processes would read PySpark from.

Spark puts `python/lib/pyspark.zip` of its home before everything else that its Python processes import. Nothing in it
is compiled, and nothing compiled can be kept beside it, so each of them (one for every source of every pipeline, and
several at a start) compiled PySpark again: 1.0 s of processor time, where the same PySpark in the folder that it was
installed in takes 0.4. On one machine that folder is at hand. So Spark is shown a home of links, which has everything
but the archive. A cluster's machines have homes of their own.
"""

from __future__ import annotations

import site
import zlib
from pathlib import Path

from skyband.compiling.cache import cache_folder

_NEEDED = ("bin", "sbin", "jars", "conf")  # the last one is the user's, if there is one


def lean_home(installed: Path) -> Path | None:
    """The home of links to the Spark that is `installed` with PySpark; None where there is nothing to gain, where links
    can't be made, or where another process of this interpreter would not find PySpark by itself."""
    packages = installed.parent
    by_itself = str(packages) in [*site.getsitepackages(), site.getusersitepackages()]
    if not (
        by_itself and (packages / "py4j").exists() and (installed / "python" / "lib" / "pyspark.zip").exists()
    ):
        return None
    home = cache_folder().parent / f"spark-{zlib.crc32(str(installed).encode()):08x}"
    try:
        home.mkdir(exist_ok=True)
        for name in _NEEDED:
            link, target = home / name, installed / name
            if target.exists() and not link.exists():
                try:
                    link.symlink_to(target, target_is_directory=True)
                except FileExistsError:  # by another process, a moment ago
                    continue
    except OSError:
        return None
    return home
