"""`streams-node store`: what the object store of these settings can do."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from cyclopts import App

from streams_node.cli.flags import with_settings_flags
from streams_node.cli.output import EXIT_OK, EXIT_REFUSED, EXIT_UNREACHABLE, Output
from streams_node.config import Settings, SettingsError, load_settings
from streams_node.errors import StoreError, StoreUnavailable

app = App(name="store", help="Look at the object store.")

# Who may call the node has nothing to do with its store, so a check must not ask for a key first.
_NO_LISTENER = {"no_auth": True, "host": "127.0.0.1", "operator_host": "127.0.0.1"}
_ROW = "{:<16} {:<10} {:>9}  {}"


def _check(flags: Mapping[str, object], config: Path | None, output: Output) -> int:
    """Try everything that the node needs of its object store, on small objects of its own below `probe/`.

    Exit code 0: the store is suitable; 1: it lacks something, or refuses; 3: it does not answer.
    """
    try:
        settings = load_settings({**flags, **_NO_LISTENER}, os.environ, config)
    except SettingsError as error:
        return output.bad_settings(error.problems)
    try:
        return _asked(settings, output)
    except StoreUnavailable as error:
        return output.fail(EXIT_UNREACHABLE, error.code, error.message)
    except StoreError as error:
        return output.fail(EXIT_REFUSED, error.code, error.message)


def _asked(settings: Settings, output: Output) -> int:
    from streams_node.objects import connect, findings
    from streams_node.objects.keys import object_id

    store = connect(settings)
    lacking = []
    try:
        output.say(f"asking {store.place}")
        if not output.json:
            output.result({}, _ROW.format("CHECK", "ANSWER", "MS", "PROMISE"))
        for found in findings(store, store.bare, object_id(secrets.token_bytes(16))):
            answer = found.answer if found.needed or found.answer != "no" else "no, unneeded"
            text = _ROW.format(found.check, answer, f"{found.seconds * 1000:.1f}", found.promise)
            facts = found._asdict() | {"seconds": round(found.seconds, 6)}
            output.result(facts, f"{text}: {found.detail}" if found.detail else text)
            lacking += [found.check] if found.needed and found.answer != "yes" else []
    finally:
        store.close()
    if lacking:
        message = f"{store.place} is not suitable: it fails {', '.join(lacking)}"
        return output.fail(EXIT_REFUSED, "object_store_unsuitable", message, lacking=lacking)
    output.say(f"{store.place} has everything that a node needs")
    return EXIT_OK


app.command(with_settings_flags(_check), name="check")
