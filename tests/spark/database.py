"""A real PostgreSQL for tests: its own cluster in a folder of its own, on a unix socket, started and stopped here.

PostgreSQL refuses to run as root; then it runs as `postgres`, or as `nobody` where there is no such user.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests import parts


def _program(name: str) -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


class Database:
    """One cluster."""

    def __init__(self) -> None:
        if _program("initdb") is None:
            parts.install("postgresql")
        initdb, self._server = _program("initdb"), _program("postgres")
        why = None if initdb and self._server else "initdb is not installed: apt-get install postgresql"
        parts.found("PostgreSQL", why)
        self._user = self._someone()
        # A socket's path may have some hundred characters only, and the server's user must be able to go there.
        self.folder = Path(tempfile.mkdtemp(prefix="sbpg-"))
        if self._user is not None:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None
        command = [
            str(initdb),
            "-D",
            str(self.folder / "data"),
            "-U",
            "skyband",
            "-A",
            "trust",
            "-N",
            "-E",
            "UTF8",
        ]
        done = self._run(command)
        assert done.wait() == 0, (self.folder / "log").read_text()
        self.url = f"postgresql://skyband@/postgres?host={self.folder}"

    def _someone(self) -> pwd.struct_passwd | None:
        if os.getuid() != 0:
            return None
        for name in ("postgres", "nobody"):
            with contextlib.suppress(KeyError):
                return pwd.getpwnam(name)
        parts.found("PostgreSQL", "it refuses to run as root, and there is no other user")
        return None

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        user = self._user
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, start_new_session=True,
                user=None if user is None else user.pw_uid, group=None if user is None else user.pw_gid,
                env={**os.environ, "HOME": str(self.folder)},
            )  # fmt: skip

    def start(self) -> None:
        import psycopg

        folder = str(self.folder)
        self._process = self._run(
            [
                str(self._server),
                "-D",
                f"{folder}/data",
                "-k",
                folder,
                "-c",
                "listen_addresses=",
                "-c",
                "fsync=off",
            ]
        )
        print(f"PostgreSQL: process {self._process.pid}, socket in {folder}")
        end = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < end, "PostgreSQL doesn't answer"
                time.sleep(0.1)

    def kill(self) -> None:
        """kill -9 of the server and all that it has started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(self.url) as connection:
            return connection.execute(sql).fetchall()  # type: ignore[arg-type]


@contextlib.contextmanager
def database() -> Iterator[Database]:
    made = Database()
    made.start()
    try:
        yield made
    finally:
        made.kill()
        shutil.rmtree(made.folder, ignore_errors=True)
