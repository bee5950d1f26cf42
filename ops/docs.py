"""Writes the pages of the manual that are made from code: settings, routes, errors, metrics, commands, operations.

Owns     the pages in `PAGES`, and what stands between the marks of `PARTS` in pages that people write.
Pulls    the settings, the route table and its words, the error codes, the metrics of a node, the command line.
Hands on text; tests/docs compares it with what is committed.

    python -m ops.docs           # write them
    python -m ops.docs --check   # say which differ
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from streams_node.cli import _app
from streams_node.config import Settings, describe, flag_of, variable_of
from streams_node.http.fields import FIELDS
from streams_node.http.gauges import register
from streams_node.http.openapi import TAGS, codes_of, document, inputs_of, status_of_codes, tag_of, wire_name
from streams_node.http.operations import CODES, EVERYWHERE, INPUTS, OPERATIONS, OUTPUTS
from streams_node.http.resources import HANDLERS
from streams_node.http.routes import ROUTES, Access, Route, RouteClass
from streams_node.observe.metrics import MetricRow
from streams_node.testing.inprocess import in_process

MANUAL = Path(__file__).resolve().parent.parent / "streams_node" / "docs"
NOTE = "<!-- Made by `python -m ops.docs` from the code; changes here are lost. -->"
BUCKET_SURFACE = "bucket.stream."
CLASSES: Mapping[RouteClass, str] = {
    RouteClass.PUBLIC: "for everybody who uses streams",
    RouteClass.OPERATOR: "for who runs the node: on a port of its own with `operator_port`",
    RouteClass.INTERNAL: "for parts of the node itself: wherever the operator's routes are",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.docs", description="The pages of the manual made from code.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page differs")
    check: bool = parser.parse_args().check
    stale = [path for path, text in made().items() if not path.is_file() or path.read_text("utf-8") != text]
    for path in stale:
        print(f"{'differs' if check else 'written'}: {path.relative_to(MANUAL.parent.parent)}")
        if not check:
            path.write_text(made()[path], "utf-8")
    return int(check and bool(stale))


def made() -> Mapping[Path, str]:
    """Every page that is made from code, as it should be."""
    pages = {MANUAL / name: f"{NOTE}\n\n{make()}" for name, make in PAGES.items()}
    return pages | {MANUAL / name: _with_part(MANUAL / name, make()) for name, make in PARTS.items()}


def settings_page() -> str:
    rows = [
        (f"`{row.name}`", _default(row.default, row.unit), _bounds(row.name, row.unit), row.reason)
        for row in describe()
    ]
    example = "queue_bytes_max"
    return f"""# Settings

Every setting has one name in four places, and the first that says it counts:

| Where | How `{example}` is written there |
| --- | --- |
| flag of `streams-node serve` | `{flag_of(example)} 128MiB` |
| environment | `{variable_of(example)}=128MiB` |
| TOML file, named by `--config` or `STREAMS_CONFIG` | `{example} = "128MiB"` |
| default | 64MiB |

Sizes are written in bytes or as `64MiB`, times in milliseconds or as `3s`. An unknown name is an error wherever it
stands, and all problems are shown at once. An empty variable counts as not set. `streams-node config check` says
whether a node would start, `streams-node config show` prints every value and where it comes from, with secrets masked.

{_table(("Setting", "Default", "Bounds", "What it is for"), rows)}"""


def routes_page() -> str:
    rows = [
        (route.methods, f"`{route.pattern}`", route.kind.value, _access(route), route.summary)
        for route in ROUTES
    ]  # fmt: skip
    classes = "\n".join(f"- **{kind.value}**: {text}" for kind, text in CLASSES.items())
    return f"""# Routes

Every address of the node, with its class and with what a request must show on a node that has a key. What each takes
and answers is in [the HTTP interface](http-api.md#operations), and as OpenAPI on a node at `/openapi.json`.

{classes}

{_table(("Method", "Path", "Class", "Key", "What it does"), rows)}
HEAD is answered wherever GET is, with the head of that answer. OPTIONS is answered with 204 for every path and without
a key, so that browsers may ask. Another method than a path knows is 405 with `Allow`.
"""


def errors_page() -> str:
    statuses = status_of_codes()
    codes = sorted(CODES, key=lambda code: (statuses[code], code))
    rows = [(f"`{code}`", str(int(statuses[code])), _names(CODES[code].headers), CODES[code].text) for code in codes]
    return f"""# Error codes

Every refusal has the same shape, which [the HTTP interface](http-api.md#errors) shows, and a `code` that is stable.
Programs decide by `code`, people read `message`.

{_table(("Code", "Status", "Headers", "What it means, and what to do"), rows)}
An answer with `internal` has a line in the node's log, found by its `X-Request-Id`. What is refused before a request
was read (408, 431, and 503 when too many connections are open) has no such id.
"""


def metrics_page() -> str:
    rows = [
        (f"`{row.name}`", row.kind, ", ".join(f"`{label}`" for label in row.labels), row.help_text)
        for row in asyncio.run(_metrics())
    ]
    return f"""# Metrics

`GET /metrics` answers in Prometheus' text format. Numbers begin at zero with each start. No label ever holds the name
of a stream or of a bucket. [Running a node](operate.md#what-to-watch) says which to watch.

{_table(("Name", "Kind", "Labels", "What it counts"), rows)}
Besides these there are the usual `process_…` numbers: memory, CPU time, open files.
"""


def commands_page() -> str:
    made = _app().generate_docs(output_format="markdown")
    made = re.sub(r" -m \S+(?= \[)", "", made)  # how this very process was started, which the library puts in
    sections = re.split(r"(?m)^(?=#+ streams-node)", made)[2:]
    text = "".join(_without_settings(section) for section in sections)
    return f"""# Commands

Results go to stdout, talk goes to stderr. Exit codes: 0 done, 1 refused by the node (or a node that could not start),
2 a mistake in what was typed, 3 no answer from the node.

With `--json`, stdout holds one JSON object a line and nothing else: one for each result, and
`{{"error": {{"code": …, "message": …}}}}` as the last line when the command failed. `STREAMS_URL` and
`STREAMS_API_KEY` say which node the `stream` commands talk to.

{text.strip()}
"""


def operations_part() -> str:
    schemas = json.loads(document(HANDLERS))["paths"]
    groups = []
    for tag, text in TAGS.items():
        routes = [route for route in ROUTES if tag_of(route) == tag and not route.name.startswith(BUCKET_SURFACE)]
        made = "\n".join(_operation(route, schemas[route.pattern][route.methods.lower()]) for route in routes)
        groups.append(f"### {tag.capitalize()}\n\n{text}\n\n{made}")
    return "\n".join(groups)


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "routes.md": routes_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "cli.md": commands_page,
}
PARTS: Mapping[str, Callable[[], str]] = {"http-api.md": operations_part}


# --- settings ---------------------------------------------------------------------------------------------------------


def _default(default: str, unit: str) -> str:
    return f"{default} {unit}" if default.isdigit() and unit else default or "empty"


def _bounds(name: str, unit: str) -> str:
    bounds = {
        kind: getattr(each, kind)
        for each in Settings.model_fields[name].metadata
        for kind in ("ge", "le")
        if hasattr(each, kind)
    }
    shown = {kind: _size(value) if unit == "bytes" else f"{value:,}" for kind, value in bounds.items()}
    match shown:
        case {"ge": least, "le": most}:
            return f"{least} to {most}"
        case {"ge": least}:
            return f"from {least}" if least != "0" else ""
        case _:
            return ""


def _size(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)


# --- metrics ----------------------------------------------------------------------------------------------------------


async def _metrics() -> Sequence[MetricRow]:
    with tempfile.TemporaryDirectory() as folder:
        async with in_process(Path(folder)) as node:
            register(node.context.metrics, node.context, node.context.connections)
            return node.context.metrics.table()


# --- commands ---------------------------------------------------------------------------------------------------------


def _without_settings(section: str) -> str:
    """A command with every setting as a flag is told once that it is so."""
    lines = section.splitlines()
    flags = tuple(f"* `{flag_of(name)}{end}" for name in Settings.model_fields for end in (" ", "`"))
    if sum(line.startswith(flags) for line in lines) < len(Settings.model_fields):
        return section
    kept = [line for line in lines if not line.startswith(flags)]
    return "\n".join(kept).rstrip() + "\n* every [setting](settings.md), as a flag\n\n"


# --- operations -------------------------------------------------------------------------------------------------------


def _operation(route: Route, described: Mapping[str, Any]) -> str:
    row = OPERATIONS[route.name]
    twin = next((each for each in ROUTES if each.name == f"bucket.{route.name}" and "stream." in each.name), None)
    also = "" if twin is None else f" The same at `{twin.methods} {twin.pattern}`."
    inputs = [(f"`{wire_name(name)}`", INPUTS[name].place, INPUTS[name].text) for name in inputs_of(route)]
    table = _table(("Input", "Where", "Meaning"), inputs) + "\n" if inputs else ""
    answers = [(str(each.status), each.text, _names(each.headers)) for each in row.answers] + list(_refusals(route))
    return f"""#### {route.methods} {route.pattern}

{row.text}{also}

{table}{_table(("Status", "When", "Headers"), answers)}{_fields(described)}"""


def _fields(described: Mapping[str, Any]) -> str:
    """The fields of an operation's JSON, if they are always the same; an object within comes after the one it is in."""
    success = json.dumps(next(iter(described["responses"].values())))
    names = re.findall(r"#/components/schemas/(\w+)", success)
    names += ["BucketStream"] if names == ["BucketPage"] else []
    tables = [
        _table((f"`{name}`", "Meaning"), [(f"`{each}`", text) for each, text in FIELDS[name].items()]) for name in names
    ]
    return "".join(f"\n{table}" for table in tables)


def _refusals(route: Route) -> Iterator[tuple[str, str, str]]:
    statuses = status_of_codes()
    codes = [code for code in codes_of(route) if code not in EVERYWHERE.split()]
    for status in sorted({int(statuses[code]) for code in codes}):
        same = [code for code in codes if statuses[code] == status]
        headers = " ".join(CODES[code].headers for code in same)
        yield str(status), ", ".join(f"[`{code}`](errors.md)" for code in same), _names(headers)


def _access(route: Route) -> str:
    return "open" if route.access is Access.OPEN else "key"


def _names(headers: str) -> str:
    unique = dict.fromkeys(headers.split())
    return ", ".join(f"`{name}`" for name in unique if name in OUTPUTS)


def _with_part(page: Path, part: str) -> str:
    """A page that people write, with its made part renewed."""
    mark = re.compile(rf"(?<={re.escape(NOTE)}\n).*(?=<!-- end -->)", re.DOTALL)
    text, count = mark.subn(lambda _: f"\n{part}\n", page.read_text("utf-8"))
    if count != 1:
        raise SystemExit(f"{page.name} has no place for its made part")
    return text


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join("|" + "".join(f" {cell} |" if cell else " |" for cell in cells) + "\n" for cells in lines)


if __name__ == "__main__":
    sys.exit(main())
