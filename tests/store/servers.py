"""Real S3 servers for tests: on loopback, with ports and a folder of their own, and ended by their process id."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from pathlib import Path

import boto3.session
from botocore.config import Config

from streams_node.objects.keys import root_prefix
from streams_node.objects.s3 import S3Address, S3Keys

KEYS = S3Keys("testkey", "testsecret")
READER = S3Keys("readerkey", "readersecret")  # may not write; known to SeaweedFS only
BUCKET = "streams"
_TOOLS = Path(sys.executable).parent
_READY_S = 30.0
_Command = Callable[[Sequence[int]], list[str]]
_STARTS_MAX = 3  # a port that was free may be taken by the time it is used


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Address]:
    """A real server that enforces conditions, checksums and credentials."""
    config = folder / "s3.json"
    identities = [_identity("writer", KEYS, ["Admin"]), _identity("reader", READER, ["Read", "List"])]
    config.write_text(json.dumps({"identities": identities}))
    names = "master volume filer s3 admin".split()

    def command(ports: Sequence[int]) -> list[str]:
        flags = [f"-{name}.port={port}" for name, port in zip(names, ports[:5], strict=True)]
        flags += [f"-{name}.port.grpc={port}" for name, port in zip(names, ports[5:], strict=True)]
        off = "-master.telemetry=false -admin.ui=false -webdav=false -s3.port.iceberg=0 -s3.port.lance=0 -s3.iam=false"
        where = [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={config}"]
        return [str(_TOOLS / "weed"), "-logtostderr=true", "mini", *where, *off.split(), *flags]

    with _running(command, folder, ports=10, address=3, ready="/healthz") as endpoint:
        address = S3Address(BUCKET, root_prefix("team/node"), endpoint, "us-east-1", path_style=True)
        make_bucket(address)
        yield address


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[S3Address]:
    """A double: fast, and strict about conditions."""

    def command(ports: Sequence[int]) -> list[str]:
        return [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(ports[0])]

    with _running(command, folder, ports=1, address=0, ready="/moto-api/") as endpoint:
        address = S3Address(BUCKET, root_prefix("team/node"), endpoint, "us-east-1", path_style=True)
        make_bucket(address)
        yield address


@contextlib.contextmanager
def rclone(folder: Path) -> Iterator[S3Address]:
    """A server that ignores conditions, and overwrites."""
    data = folder / "data"
    (data / BUCKET).mkdir(parents=True)

    def command(ports: Sequence[int]) -> list[str]:
        keys = f"{KEYS.access_key_id},{KEYS.secret_access_key}"
        listen = [f"--addr=127.0.0.1:{ports[0]}", f"--auth-key={keys}", "--config=/dev/null"]
        return [str(_TOOLS / "rclone"), "serve", "s3", *listen, str(data)]

    with _running(command, folder, ports=1, address=0, ready="/") as endpoint:
        yield S3Address(BUCKET, root_prefix("team/node"), endpoint, "us-east-1", path_style=True)


def _identity(name: str, keys: S3Keys, actions: list[str]) -> dict[str, object]:
    credentials = [{"accessKey": keys.access_key_id, "secretKey": keys.secret_access_key}]
    return {"name": name, "credentials": credentials, "actions": actions}


def make_bucket(address: S3Address) -> None:
    session = boto3.session.Session(KEYS.access_key_id, KEYS.secret_access_key)
    config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 10, "mode": "standard"})
    client = session.client("s3", endpoint_url=address.endpoint, region_name=address.region, config=config)
    client.create_bucket(Bucket=address.bucket)
    client.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody used a moment ago; all at once, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


@contextlib.contextmanager
def _running(command: _Command, folder: Path, *, ports: int, address: int, ready: str) -> Iterator[str]:
    log = folder / "server.log"
    for _ in range(_STARTS_MAX):
        chosen = free_ports(ports)
        with log.open("ab") as output:
            process = subprocess.Popen(command(chosen), stdout=output, stderr=output, cwd=folder, env=_environment())
        endpoint = f"http://127.0.0.1:{chosen[address]}"
        try:
            if _answers(endpoint + ready, process):
                yield endpoint
                return
        finally:
            process.kill()
            process.wait()
    raise AssertionError(f"the server does not start: {log.read_text()[-2000:]}")


def _answers(url: str, process: subprocess.Popen[bytes]) -> bool:
    ends = time.monotonic() + _READY_S
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < ends and process.poll() is None:
        try:
            opener.open(url, timeout=1).close()
        except urllib.error.HTTPError as refused:
            if refused.code < HTTPStatus.INTERNAL_SERVER_ERROR:
                return True  # it speaks HTTP; that it wants a signature is fine
        except OSError:
            pass
        else:
            return True
        time.sleep(0.05)
    return False


def _environment() -> dict[str, str]:
    """Without what could lead a server, or the SDK inside it, to somebody's account."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "RCLONE_", "WEED_"))}
