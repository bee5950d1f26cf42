"""What every `stream` command shares: the node's address and key, and failures turned into exit codes."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from cyclopts import Parameter

from streams_node.cli.client import Client, RefusedError, UnreachableError, UsageError
from streams_node.cli.output import EXIT_OK, EXIT_REFUSED, EXIT_UNREACHABLE, Output

SWITCH = Parameter(negative="")
# Offsets like -1 begin with a hyphen, and `-` is stdin.
VALUE = Parameter(allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What every command of this group takes."""

    url: Annotated[str, Parameter(env_var="STREAMS_URL", help="Address of the node.")] = "http://127.0.0.1:4437"
    api_key: Annotated[
        str | None, Parameter(env_var="STREAMS_API_KEY", help="The node's key; better in the environment.")
    ] = field(default=None, repr=False)
    json: Annotated[bool, Parameter(help="Print results as JSON, one object a line.", negative="")] = False


DEFAULTS = Options()


def run(options: Options, act: Callable[[Client, Output], None]) -> int:
    """Let `act` talk to the node; returns the exit code."""
    output = Output(json=options.json)
    try:
        with Client(options.url, options.api_key) as client:
            act(client, output)
    except UsageError as error:
        return output.misuse(str(error))
    except RefusedError as error:
        return output.fail(EXIT_REFUSED, error.code, error.message, status=error.status)
    except UnreachableError as error:
        return output.fail(EXIT_UNREACHABLE, "unreachable", str(error))
    except (json.JSONDecodeError, UnicodeDecodeError):
        return output.fail(EXIT_UNREACHABLE, "strange_answer", f"{options.url} does not answer like a node")
    return EXIT_OK
