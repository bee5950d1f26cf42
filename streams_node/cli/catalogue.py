"""`streams-node catalogue`: what the catalogue in the object store says, and whether all of it is there."""

import contextlib
import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from streams_node.cli.flags import SettingsCommand, with_settings_flags
from streams_node.cli.output import EXIT_OK, EXIT_REFUSED, EXIT_UNREACHABLE, Output
from streams_node.config import Settings, SettingsError, load_settings
from streams_node.errors import StoreError, StoreUnavailable

app = App(name="catalogue", help="Look at the catalogue in the object store: what a node has published.")

_NO_LISTENER = {"no_auth": True, "host": "127.0.0.1", "operator_host": "127.0.0.1"}
_SHOWN = "{:<14} {}"
_OBJECTS = "{:<10} {:>5} {:>9} {:>14} {:>16}"
_STREAMS = "{:<40} {:>20} {:>12} {:>14} {:<7} {}"
_VERIFIED = "{:<11} {:<7} {:>9}  {}"

_GENERATION = Annotated[
    int | None, Parameter(help="As of this generation, as long as the store has what leads to it. [default: newest]")
]
_PATTERN = Annotated[
    str | None, Parameter(help="List the streams whose `bucket/name` is like this, where `*` is anything.")
]
_QUICK = Annotated[bool, Parameter(help="Ask for sizes and checksums only; read no object.", negative="")]
Asked = Callable[[Settings, Mapping[str, Any], Output], int]


def _show(flags: Mapping[str, object], config: Path | None, output: Output) -> int:
    """Show what the catalogue says: its generation, who wrote it, and how much it names.

    Exit code 0: shown; 1: there is none, or it cannot be read; 3: the store does not answer.
    """
    return _run(flags, config, output, _shown)


def _verify(flags: Mapping[str, object], config: Path | None, output: Output) -> int:
    """Read everything that the catalogue names: is it there, is it whole, and is each entry in exactly one object?

    Changes nothing, and may run beside a node. Exit code 0: all is well; 1: something is not; 3: no answer.
    """
    return _run(flags, config, output, _verified)


def _run(flags: Mapping[str, object], config: Path | None, output: Output, asked: Asked) -> int:
    own = {name: flags.get(name) for name in ("generation", "streams", "quick")}
    try:
        rest = {name: value for name, value in flags.items() if name not in own}
        settings = load_settings({**rest, **_NO_LISTENER}, os.environ, config)
    except SettingsError as error:
        return output.bad_settings(error.problems)
    try:
        return asked(settings, own, output)
    except StoreUnavailable as error:
        return output.fail(EXIT_UNREACHABLE, error.code, error.message)
    except StoreError as error:
        return output.fail(EXIT_REFUSED, error.code, error.message)


def _shown(settings: Settings, own: Mapping[str, Any], output: Output) -> int:
    from streams_node.manifest.chain import Chain
    from streams_node.manifest.rebuild import rebuild
    from streams_node.manifest.show import streams_like, summary
    from streams_node.manifest.tables import open_mirror
    from streams_node.objects import connect

    with contextlib.closing(connect(settings)) as store, tempfile.TemporaryDirectory() as folder:
        chain = Chain(store)
        generation = chain.newest() if own["generation"] is None else own["generation"]
        if not generation:
            return output.fail(EXIT_REFUSED, "catalogue", f"{store.place} holds no catalogue")
        output.say(f"reading {store.place}")
        rebuilt = rebuild(chain, Path(folder), generation)
        for each in rebuilt.passed_over:
            output.say(f"passed over: {each}")
        with contextlib.closing(open_mirror(rebuilt.path)) as db:
            if own["streams"] is None:
                _print_summary(summary(db), output)
                return EXIT_OK
            if not output.json:
                output.result({}, _STREAMS.format("STREAM", "ID", "ENTRIES", "BYTES", "STATE", "TYPE"))
            for row in streams_like(db, own["streams"]):
                state = "closed" if row["closed"] else "open"
                name = f"{row['bucket']}/{row['name']}"
                text = _STREAMS.format(name, row["id"], row["entries"], row["bytes"], state, row["content_type"])
                output.result(row, text)
    return EXIT_OK


def _print_summary(found: Mapping[str, Any], output: Output) -> None:
    if output.json:
        output.result(found, "")
        return
    for name, value in found.items():
        if name not in {"objects", "indexes"}:
            output.result({}, _SHOWN.format(name, value))
    output.result({}, _OBJECTS.format("OBJECTS", "LEVEL", "NUMBER", "ENTRIES", "BYTES"))
    for each in found["objects"]:
        text = _OBJECTS.format(each["kind"], each["level"], each["number"], each["entries"], each["bytes"])
        output.result({}, text)
    if found["indexes"]:
        output.result({}, _OBJECTS.format("INDEXES", "LEVEL", "NUMBER", "ENTRIES", "BYTES"))
    for each in found["indexes"]:
        text = _OBJECTS.format(each["family"], each["level"], each["number"], each["entries"], each["bytes"])
        output.result({}, text)


def _verified(settings: Settings, own: Mapping[str, Any], output: Output) -> int:
    from streams_node.manifest.chain import Chain
    from streams_node.manifest.verify import verify
    from streams_node.objects import connect

    problems = 0
    with contextlib.closing(connect(settings)) as store, tempfile.TemporaryDirectory() as folder:
        output.say(f"reading {store.place}")
        if not output.json:
            output.result({}, _VERIFIED.format("WHAT", "ANSWER", "NUMBER", "NAME"))
        for found in verify(Chain(store), Path(folder), quick=bool(own["quick"])):
            problems += bool(found.problem)
            name = f"{found.name}: {found.problem}" if found.problem else found.name
            answer = "damaged" if found.problem else "good"
            output.result(found._asdict(), _VERIFIED.format(found.what, answer, found.good or "", name))
        if problems:
            message = f"{store.place}: {problems} problems in what the catalogue names"
            return output.fail(EXIT_REFUSED, "catalogue", message, problems=problems)
        output.say(f"{store.place} holds everything that the catalogue names")
    return EXIT_OK


def _with_own_flags(command: SettingsCommand, **own: object) -> Callable[..., int]:
    """A command of the settings' flags, with some of its own before them."""
    run = with_settings_flags(command)
    more = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=False if annotation is _QUICK else None, annotation=annotation
        )
        for name, annotation in own.items()
    ]
    signature = inspect.signature(run)
    parameters = [*more, *signature.parameters.values()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined] # as flags.py does
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


app.command(_with_own_flags(_show, generation=_GENERATION, streams=_PATTERN), name="show")
app.command(_with_own_flags(_verify, quick=_QUICK), name="verify")
