"""An HDFS and an S3 store for tests: processes of their own on loopback, looked at over HTTP, without a JVM.

HDFS is Hadoop's own mini-cluster, with PySpark's Hadoop jars. The S3 store is moto's server, in an environment of its
own (requirements-soak.txt); Spark reaches it by hadoop-aws, whose SDK is 686 MB. All are fetched once for a machine.
"""

from __future__ import annotations

import contextlib
import getpass
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

from tests.spark.broker import Coordinates, fetch, free_port

HDFS: list[Coordinates] = [
    ("org.apache.hadoop", "hadoop-client-minicluster", "3.5.0"),
    ("org.junit.jupiter", "junit-jupiter-api", "5.11.4"),
    ("org.junit.platform", "junit-platform-commons", "1.11.4"),
    ("org.opentest4j", "opentest4j", "1.3.0"),
    ("org.apiguardian", "apiguardian-api", "1.1.2"),
]
S3A: list[Coordinates] = [
    ("org.apache.hadoop", "hadoop-aws", "3.5.0"),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", "1.3.1"),
    ("software.amazon.awssdk", "bundle", "2.35.4"),
]
ROOT = Path(__file__).resolve().parents[2]


class Store:
    """A store that runs, and where its files are."""

    uri: str  # of its root
    settings = ""  # lines of [spark]
    credentials = ""
    process: subprocess.Popen[bytes]

    def exists(self, path: str) -> bool:
        raise NotImplementedError

    def get(self, path: str) -> bytes:
        raise NotImplementedError

    def put(self, path: str, data: bytes) -> None:
        raise NotImplementedError

    def files(self, folder: str) -> list[str]:
        """Every file below a folder, by its path in the store."""
        raise NotImplementedError

    def ask(self, method: str, url: str, data: bytes = b"") -> tuple[int, bytes]:
        """An answer; one that says where else to ask is followed."""
        there = urlsplit(url)
        connection = http.client.HTTPConnection(there.netloc, timeout=30)
        try:
            path = f"{there.path}?{there.query}".rstrip("?")
            connection.request(method, path, data or None, {"Authorization": self.credentials})
            answer = connection.getresponse()
            body, status = answer.read(), answer.status
            location = answer.headers["Location"]
        finally:
            connection.close()
        return self.ask(method, location, data) if status == 307 else (status, body)

    def start(self, command: list[str], log: Path) -> None:
        with open(log, "ab") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        print(f"{type(self).__name__}: process {self.process.pid} at {self.uri}, log {log}")

    def wait(self, log: Path) -> None:
        end = time.monotonic() + 240
        while time.monotonic() < end:
            assert self.process.poll() is None, log.read_text()[-2000:]
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.is_ready():
                    return
            time.sleep(0.3)
        raise AssertionError(f"the store does not start: {log.read_text()[-2000:]}")

    def is_ready(self) -> bool:
        raise NotImplementedError

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Hdfs(Store):
    """A name node and a data node."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        from skyband.spark.session.java import find_java

        names, self._http = free_port(), free_port()
        self.uri = f"hdfs://127.0.0.1:{names}"
        own = Path(pyspark.__file__).parent / "jars"
        patterns = ("hadoop-client-*.jar", "slf4j-api*.jar", "log4j-*.jar", "jcl-over-slf4j*.jar")
        jars = [*fetch("hdfs", HDFS, alone=True), *(jar for pattern in patterns for jar in own.glob(pattern))]
        java = [str(find_java() / "bin" / "java"), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        options = ["-format", "-nnport", str(names), "-httpport", str(self._http), "-datanodes", "1"]
        options += [f"-Dhdfs.minidfs.basedir={folder / 'hdfs'}"]
        folder.mkdir(parents=True, exist_ok=True)
        main = "org.apache.hadoop.test.MiniDFSClusterManager"
        log = folder / "hdfs.log"
        self.start([*java, "-cp", os.pathsep.join(map(str, jars)), main, *options], log)
        self.wait(log)

    def _op(self, method: str, path: str, op: str, data: bytes = b"") -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self._http}/webhdfs/v1{quote(path)}?op={op}&user.name={getpass.getuser()}"
        return self.ask(method, url, data)

    def is_ready(self) -> bool:
        return self._op("PUT", "/ready", "CREATE&overwrite=true", b"x")[0] == 201

    def exists(self, path: str) -> bool:
        return self._op("GET", path, "GETFILESTATUS")[0] == 200

    def get(self, path: str) -> bytes:
        status, data = self._op("GET", path, "OPEN")
        assert status == 200, data
        return data

    def put(self, path: str, data: bytes) -> None:
        unfinished = f"{path}._COPYING_"
        assert self._op("PUT", unfinished, "CREATE&overwrite=true", data)[0] == 201
        assert self._op("PUT", unfinished, f"RENAME&destination={quote(path)}")[0] == 200

    def files(self, folder: str) -> list[str]:
        found = []
        for one in json.loads(self._op("GET", folder, "LISTSTATUS")[1])["FileStatuses"]["FileStatus"]:
            path = f"{folder}/{one['pathSuffix']}"
            found += self.files(path) if one["type"] == "DIRECTORY" else [path]
        return found


class S3(Store):
    """A store of objects that knows conditional PUTs."""

    # it looks at who asks, and not at the signature
    credentials = (
        "AWS4-HMAC-SHA256 Credential=x/20261119/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    )

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.uri, self._url = "s3a://bucket", f"http://127.0.0.1:{port}/bucket"
        jars = ",".join(map(str, fetch("s3a", S3A, alone=True)))
        provider = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        options = {
            "endpoint": f"http://127.0.0.1:{port}",
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "connection.expect.continue": "false",  # which this server doesn't answer
            "access.key": "x",
            "secret.key": "y",
            "aws.credentials.provider": provider,
        }
        self.settings = f'jars = "{jars}"\n' + "".join(
            f'"hadoop.fs.s3a.{key}" = "{value}"\n' for key, value in options.items()
        )
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "s3.log"
        self.start([str(_moto()), "-H", "127.0.0.1", "-p", str(port)], log)
        self.wait(log)

    def is_ready(self) -> bool:
        return self.ask("PUT", self._url)[0] == 200

    def exists(self, path: str) -> bool:
        return self.ask("HEAD", self._url + quote(path))[0] == 200

    def get(self, path: str) -> bytes:
        status, data = self.ask("GET", self._url + quote(path))
        assert status == 200, data
        return data

    def put(self, path: str, data: bytes) -> None:
        assert self.ask("PUT", self._url + quote(path), data)[0] == 200

    def files(self, folder: str) -> list[str]:
        found: list[str] = []
        while True:
            after = f"&start-after={quote(found[-1][1:])}" if found else ""
            url = f"{self._url}?list-type=2&prefix={quote(folder[1:] + '/')}{after}"
            keys = re.findall(r"<Key>(.*?)</Key>", self.ask("GET", url)[1].decode())
            if not keys:
                return [path for path in found if not path.endswith("/")]
            found += [f"/{key}" for key in keys]


def _moto() -> Path:
    """The command of the S3 store."""
    wanted = ROOT / "requirements-soak.txt"
    mark = f"{zlib.crc32(wanted.read_bytes() + sys.version.encode()):08x}"
    home = Path(tempfile.gettempdir()) / f"skyband-test-moto-{os.getuid()}-{mark}"
    if not (home / "done").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "-q", "--require-hashes", "-r", str(wanted)]
        subprocess.run(pip, check=True)
        (home / "done").touch()
    return home / "bin" / "moto_server"


@contextlib.contextmanager
def store(kind: str, folder: Path) -> Iterator[Store]:
    made = {"hdfs": Hdfs, "s3": S3}[kind](folder)
    try:
        yield made
    finally:
        made.stop()
