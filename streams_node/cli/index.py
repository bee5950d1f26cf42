"""`streams-node index`: how far the indexes of a node are, and have the rest built."""

import json
import time
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import App, Parameter

from streams_node.cli.client import Client, path_of_stream
from streams_node.cli.output import Output
from streams_node.cli.session import DEFAULTS, SWITCH, Options, run

app = App(name="index", help="Look at the indexes of a node, and have them built. NAME is `stream` or `bucket/stream`.")

_SHOWN = "{:<24} {}"
_FAMILIES = "{:<24} {:>8} {:>8} {:>8} {:>12} {:>10}  {}"
_WORK = "{:<32} {:>8} {:>10} {:>14}"
_LOOK_S = 1.0
_OVERVIEW = "/v1/server/_index"
_LEFT_OUT = {"claims", "failed", "counts"}


def status(name: str | None = None, *, options: Options = DEFAULTS) -> int:
    """Show how far the indexes of a stream are; without a name, what the whole node has to index.

    Parameters
    ----------
    name
        `stream` or `bucket/stream`.
    options
        The node to talk to, and how to print. The overview is one of the operator's routes.
    """

    def act(client: Client, output: Output) -> None:
        if name is None:
            _print_overview(_asked(client, _OVERVIEW), output)
        else:
            _print_status(_asked(client, f"{path_of_stream(name)}/_index_status"), output)

    return run(options, act)


def rebuild(
    name: str,
    *,
    family: Annotated[list[str] | None, Parameter(negative="", help="Only this index; may be repeated.")] = None,
    anew: Annotated[bool, SWITCH] = False,
    wait: Annotated[bool, SWITCH] = False,
    options: Options = DEFAULTS,
) -> int:
    """Have everything of a stream indexed that is sealed and not indexed yet, however little it is.

    Parameters
    ----------
    name
        `stream` or `bucket/stream`.
    family
        Only this index: lexicon, exact, companion, rollups or metrics. May be repeated.
    anew
        Forget first what is indexed. Until it is indexed again, answers come from the entries themselves.
    wait
        Show the progress, and end when it is done.
    options
        The node to talk to, and how to print. It is one of the operator's routes.
    """

    def act(client: Client, output: Output) -> None:
        path = path_of_stream(name)
        body = json.dumps({"families": family or [], "anew": anew}).encode()
        asked = client.send("POST", f"{path}/_index/rebuild", body=body, headers={"content-type": "application/json"})
        view = json.loads(asked.body)
        text = ", ".join(f"{count} entries of {each}" for each, count in view["entries"].items())
        output.result(view, f"{name}: {text} will be indexed")
        if wait:
            _watch(client, output, path, time.sleep)

    return run(options, act)


def _watch(client: Client, output: Output, path: str, sleep: Callable[[float], None]) -> None:
    last = ""
    while True:
        view = _asked(client, f"{path}/_index_status")
        behind = {each: count for each, count in _lags(view).items() if count}
        text = ", ".join(f"{each} {count} parts behind" for each, count in behind.items()) or "all is indexed"
        if text != last:
            output.say(text)
            last = text
        if not behind:
            return
        sleep(_LOOK_S)


def _lags(view: Any) -> dict[str, int]:
    found = {each["family"]: each["lag_segments"] for each in view["search_families"]}
    return {"keys": view["routing_key_index"]["lag_segments"], **found}


def _asked(client: Client, path: str) -> Any:
    return json.loads(client.send("GET", path).body)


def _print_status(view: Any, output: Output) -> None:
    if output.json:
        output.result(view, "")
        return
    output.result({}, _SHOWN.format("stream", view["stream"]))
    output.result({}, _SHOWN.format("profile", view["profile"]))
    output.result({}, _SHOWN.format("plan", view["desired_index_plan_generation"]))
    output.result({}, _SHOWN.format("sealed parts", view["segments"]["uploaded_count"]))
    output.result({}, _FAMILIES.format("INDEX", "PARTS", "BEHIND", "STALE", "LAG MS", "BYTES", "OF"))
    keys = view["routing_key_index"]
    if keys["configured"]:
        output.result({}, _row("keys", keys, keys["indexed_segment_count"], 0, ""))
    for each in view["search_families"]:
        fields = ", ".join(each["fields"])
        parts, stale = each["covered_segment_count"], each["stale_segment_count"]
        output.result({}, _row(each["family"], each, parts, stale, fields))


def _row(name: str, each: Any, parts: int, stale: int, fields: str) -> str:
    lag = "-" if each["lag_ms"] is None else each["lag_ms"]
    return _FAMILIES.format(name, parts, each["lag_segments"], stale, lag, each["bytes_at_rest"], fields)


def _print_overview(view: Any, output: Output) -> None:
    if output.json:
        output.result(view, "")
        return
    for name, value in view.items():
        if name not in _LEFT_OUT:
            output.result({}, _SHOWN.format(name, value))
    if view["claims"]:
        output.result({}, _WORK.format("DRIVER", "FENCE", "DONE", "BYTES"))
    for each in view["claims"]:
        done = f"{each['done']}/{each['objects']}"
        output.result({}, _WORK.format(each["driver"], each["fence"], done, each["bytes"]))
    for each in view["failed"]:
        output.result({}, f"failed {each['count']} times since {each['since']}: {each['object']}: {each['reason']}")


app.command(status, name="status")
app.command(rebuild, name="rebuild")
