"""The examples of a page: which blocks are run, what they are expected to print, and how that is compared.

Blocks marked `sh`, `python` and `js` are run in their order, in one shell. A block marked `output` is what those since
the last one print on stdout: `…` stands for any text, on a line of its own for any lines. Other blocks are not run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "=== next block ==="
_INTO_SHELL = {
    "sh": "{code}",
    "python": "\"$PYTHON\" - <<'END_OF_EXAMPLE'\n{code}END_OF_EXAMPLE\n",
    "js": "(cd \"$NODE_HOME\" && node --input-type=module <<'END_OF_EXAMPLE'\n{code}END_OF_EXAMPLE\n)\n",
}


@dataclass(frozen=True)
class Example:
    """Code that is run together, and what it prints; None when the page does not say."""

    code: str
    output: str | None


def examples(page: Path) -> Iterator[Example]:
    code = ""
    for kind, text in _BLOCK.findall(page.read_text("utf-8")):
        if kind in _INTO_SHELL:
            code += _INTO_SHELL[kind].format(code=text)
        elif kind == "output":
            yield Example(code, text)
            code = ""
    if code:
        yield Example(code, None)


def script(wanted: list[Example]) -> str:
    """All examples of a page as one script, which ends at the first command that fails."""
    return "set -euo pipefail\n" + f"\necho '{_MARK}'\n".join(example.code for example in wanted)


def printed(stdout: str) -> list[str]:
    return stdout.replace("\r\n", "\n").split(f"{_MARK}\n")


def fits(output: str, seen: str) -> bool:
    lines = [".*" if line == "…" else _line(line) for line in output.strip("\n").split("\n")]
    return re.fullmatch("\n".join(lines), seen.strip("\n"), re.DOTALL) is not None


def _line(line: str) -> str:
    return "[^\n]*".join(re.escape(part) for part in line.split("…"))
