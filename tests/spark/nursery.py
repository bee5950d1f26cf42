"""`python -m tests.spark.nursery URL TOKEN`: for each line `name pass` on its input, a driver that is killed there.

It says how each of them ended. They are forked, as loading one takes a second. Tasks run in the driver itself.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from typing_extensions import override

import spark_index.driver.job  # noqa: F401 - so that no child has to
from spark_index.driver.client import Address, NodeClient
from spark_index.driver.logs import Log
from spark_index.driver.loop import Driver, Options
from spark_index.session import Session
from streams_node.testing import crashpoints


class Here(Session):
    """Without Java."""

    @override
    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [work(item) for item in items]


def drive(address: Address, name: str, count: int) -> None:
    """Work until there is nothing left, or until the moment comes."""
    crashpoints._NAME, crashpoints._left = name, count
    client = NodeClient(address)
    Driver(client, Here("local[2]", Path()), Options("d", once=True, backoff_s=0.01), Log(2)).run()
    client.close()


def main(url: str, token: str) -> None:
    for line in sys.stdin:
        name, count = line.split()
        child = os.fork()
        if child == 0:
            try:
                drive(Address(url, token), name, int(count))
                os._exit(0)
            finally:
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - what it is for


if __name__ == "__main__":
    main(*sys.argv[1:])
