"""The examples of the manual's page are run, and print what it says."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.docs.examples import fits
from tests.spark.bucket import Bucket, Entry

PAGE = Path(__file__).resolve().parents[2] / "streams_node" / "docs" / "spark.md"
BLOCK = re.compile(r"```(python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.usefixtures("spark")
def test_the_examples_of_the_page_print_what_it_says(bucket: Bucket, tmp_path: Path) -> None:
    bucket.stream(1, "orders")
    items = ["tea", "salt", "rice", "salt", "tea", "rice", "tea"]
    bucket.put(
        {
            1: [
                Entry(seq, f'{{"item":"{item}"}}'.encode(), "south" if seq % 2 else "north")
                for seq, item in enumerate(items)
            ]
        }
    )
    bucket.end(1, len(items))
    bucket.publish()
    names: dict[str, Any] = {}
    printed, outputs = "", 0
    for kind, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if kind == "python":
            code = text.replace("/srv/streams", str(tmp_path)).replace("/srv/reports", str(tmp_path / "reports"))
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours
            printed += said.getvalue()
        else:
            assert fits(text, printed), printed
            printed, outputs = "", outputs + 1
    assert outputs == 3
