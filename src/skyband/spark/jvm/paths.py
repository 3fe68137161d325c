"""Paths in a pipeline file, and what the machines of a cluster see of them.

A path is one of this machine, plain or as a URI (`file:`), or a URI of another of Hadoop's file systems (`hadoop`). On
a cluster tasks read the streams' files, and Spark's state is written by executors, so every machine has to see folders
of the first kind under the same names.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

from skyband.core.errors import InputError

from .hadoop import HadoopPath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(
    r"(file(?=:)|[A-Za-z][A-Za-z0-9+.-]*(?=:/)):", re.I
)  # other names may have a colon in them
_HERE = ("", "localhost")

Place: TypeAlias = Path | HadoopPath
"""A file or folder, on a disk or in a store: the same methods look and read; `files` writes."""


def place_of(text: str) -> Place:
    """The place that a path or a URI means."""
    found = _SCHEME.match(text)
    if found is None:
        return Path(text)
    place = urlsplit(text)
    if place.scheme != "file":
        return HadoopPath.of(text)
    if place.netloc.lower() not in _HERE or not place.path.startswith("/"):
        raise InputError(
            f"{text} is no file of this machine: write file:// and its whole path, as in file:///data."
        )
    return Path(unquote(text[text.index(place.path, found.end() + len(place.netloc)) :]))


def uri_of(place: Place) -> str:
    """A place as Spark takes it, whatever its default file system is."""
    # Hadoop takes the rest as it is, without %xx
    return str(place) if isinstance(place, HadoopPath) else f"file://{place}"


def check_seen(session: SparkSession, folders: Iterable[Place]) -> None:
    """Raise a sentence if tasks don't see one of these folders of a disk. On one machine they do."""
    context = session.sparkContext
    if str(context.master).startswith("local"):
        return
    wanted = [str(folder) for folder in folders if isinstance(folder, Path)]
    tasks = int(context.defaultParallelism)

    def look(_: Iterable[int]) -> Iterator[tuple[str, str]]:
        return ((socket.gethostname(), folder) for folder in wanted if not os.path.exists(folder))

    for host, folder in context.parallelize(range(tasks), tasks).mapPartitions(look).collect():
        raise unseen(folder, host)


def unseen(folder: str, host: str) -> InputError:
    """The error for a folder that a machine of the cluster doesn't see."""
    return InputError(
        f"The machine {host} does not see {folder}: on a cluster every machine has to see the streams' folders and the "
        f"checkpoint under the same path, as on a shared mount, or they are in a store that all reach (hdfs:, s3a:, …)."
    )
