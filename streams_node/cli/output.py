"""What a command prints: results on stdout, talk on stderr, and the exit code that a script can rely on.

The contract of `--json`: stdout holds one JSON object per line and nothing else, one for each result (a page, a
listed stream, an append), and `{"error": {"code", "message", ...}}` as the last line if the command failed.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

EXIT_OK = 0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's words go; `json` is the `--json` flag."""

    json: bool

    def result(self, facts: Mapping[str, object], text: str | bytes) -> None:
        """One result: the facts for a program, or `text` for a person; bytes are a stream's and written as they are."""
        if self.json:
            _write(json.dumps(facts, separators=(",", ":")).encode() + b"\n")
        elif isinstance(text, str):
            _write(_tamed(text).encode() + b"\n")
        else:
            _write(text)

    def say(self, text: str) -> None:
        print(_tamed(text), file=sys.stderr)

    def fail(self, exit_code: int, code: str, message: str, **facts: object) -> int:
        if self.json:
            self.result({"error": {"code": code, "message": message, **facts}}, "")
        else:
            self.say(f"{code}: {message}")
        return exit_code

    def misuse(self, message: str) -> int:
        return self.fail(EXIT_USAGE, "usage", message)

    def bad_settings(self, problems: Iterable[tuple[str, str, str]]) -> int:
        """All problems of the settings, each as (source, name, problem)."""
        listed = list(problems)
        self.say(f"{len(listed)} problem{'s' if len(listed) > 1 else ''} in the settings:")
        for source, name, problem in listed:
            self.say(f"  {name}: {problem} ({source})")
        if self.json:
            keys = ("source", "name", "problem")
            self.result({"valid": False, "problems": [dict(zip(keys, each, strict=True)) for each in listed]}, "")
        return EXIT_USAGE


def _tamed(text: str) -> str:
    # Names and messages come from others; a terminal would obey the control characters in them.
    return "".join(each if each.isprintable() or each == "\t" else ascii(each)[1:-1] for each in text)


def _write(data: bytes) -> None:
    # Through the buffer, as stream data is bytes; flushed, as `tail` has to show an entry when it comes.
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
