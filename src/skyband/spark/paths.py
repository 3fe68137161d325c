"""Paths in a pipeline file, and what the machines of a cluster see of them.

A path is one of this machine, plain or as a URI (`file:`). Any other scheme is refused: taken for a plain path, it
would become a folder of that name, in silence. On a cluster tasks read the streams' files, and Spark's state is written
by executors, so every machine has to see these folders under the same names.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from skyband.core.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(
    r"(file(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=:/)):", re.I
)  # other names may have a colon in them
_HERE = ("", "localhost")


def local_path(text: str) -> Path:
    """The path that a text means; an error for a scheme that can't be reached."""
    found = _SCHEME.match(text)
    if found is None:
        return Path(text)
    place = urlsplit(text)
    if place.scheme != "file":
        raise InputError(
            f"{text} can't be reached, since only this machine's files can (plain paths and file:): mount the store as "
            f"a folder of every machine, and give that folder's path."
        )
    if place.netloc.lower() not in _HERE or not place.path.startswith("/"):
        raise InputError(
            f"{text} is no file of this machine: write file:// and its whole path, as in file:///data."
        )
    return Path(unquote(text[text.index(place.path, found.end() + len(place.netloc)) :]))


def hadoop_path(path: Path) -> str:
    """A path as Spark takes it for one of this machine, whatever its default file system is."""
    return f"file://{path}"  # Hadoop takes the rest as it is, without %xx


def check_seen(session: SparkSession, folders: Iterable[Path]) -> None:
    """Raise a sentence if tasks don't see one of these folders. On one machine they do."""
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return
    wanted = [str(folder) for folder in folders]
    tasks = int(context.defaultParallelism)

    def look(_: Iterable[int]) -> Iterator[tuple[str, str]]:
        return ((socket.gethostname(), folder) for folder in wanted if not os.path.exists(folder))

    for host, folder in context.parallelize(range(tasks), tasks).mapPartitions(look).collect():
        raise unseen(folder, host)


def unseen(folder: str, host: str) -> InputError:
    """The error for a folder that a machine of the cluster doesn't see."""
    return InputError(
        f"The machine {host} does not see {folder}: on a cluster every machine has to see the streams' folders and the "
        f"checkpoint under the same path, as on a shared mount."
    )
