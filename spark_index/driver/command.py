"""The command line of the driver, and the process around it."""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from spark_index.driver.client import Address, NodeClient, Refused
from spark_index.driver.lifetime import has_parent, watch_parent
from spark_index.driver.logs import Log, capture_stderr
from spark_index.driver.loop import Driver, Options
from spark_index.driver.workdir import work_folder
from spark_index.java import NoJava
from spark_index.session import Session

_REFUSED = 2
_TOKEN = "STREAMS_TOKEN"  # noqa: S105 - a name of the environment


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        token = (
            options.token_file.read_text().strip() if options.token_file else options.token or os.environ.get(_TOKEN)
        )
        settings = dict(each.split("=", 1) for each in options.conf)
    except (OSError, ValueError) as problem:
        print(f"spark_index: {problem}", file=sys.stderr)  # noqa: T201 - talk on stderr, before there is a log
        return _REFUSED
    os.environ.pop(_TOKEN, None)  # no worker needs it
    log = capture_stderr()
    with work_folder() as folder:
        os.environ["TMPDIR"] = str(folder)  # of Java's helpers and of local workers, too
        tempfile.tempdir = None
        node = NodeClient(Address(options.node, token))
        with Session(options.master, folder, settings) as session:
            name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
            driver = Driver(node, session, Options(name, options.idle_stop, options.once), log)
            _end_well(driver, session, folder, log)
            log("started", driver=name, node=options.node, master=options.master)
            try:
                driver.run()
            except (Refused, NoJava) as problem:
                log("refused", "error", problem=str(problem))
                return _REFUSED
            finally:
                node.close()
            log("ended")
    return 0


def _end_well(driver: Driver, session: Session, folder: Path, log: Log) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.interrupt())

    def parent_gone() -> None:
        # At once, and without a word to anybody: the node's leases end with it.
        log("parent_gone", "warning")
        session.kill()
        shutil.rmtree(folder, ignore_errors=True)
        if os.getpgrp() == os.getpid():
            # This process too, and a Java that is just being started: it does not listen to its input yet.
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    if has_parent():
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)  # so that the group is our own
        watch_parent(parent_gone)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_index",
        description="Builds indexes for a node, with Spark.",
        epilog="The manual has a page on it: spark.md. Ends at the end of its standard input, if that is a pipe.",
        allow_abbrev=False,
    )
    parser.add_argument("--node", required=True, metavar="URL", help="address of the node's operator routes")
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument("--token-file", type=Path, metavar="FILE", help=f"file with the access key; else ${_TOKEN}")
    keys.add_argument(
        "--token", metavar="KEY", help="the access key itself: who lists processes on this machine sees it"
    )
    parser.add_argument("--master", default="local[*]", help="Spark's master: local[*], spark://…, k8s://…, yarn")
    parser.add_argument(
        "--idle-stop", type=float, default=120.0, metavar="S", help="seconds without work after which Java is stopped"
    )
    parser.add_argument("--once", action="store_true", help="end when there is nothing to do")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; may be repeated"
    )
    return parser
