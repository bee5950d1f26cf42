"""`python -m ops.bench.tiers`: the numbers that the tiers are held to, each with when and how, on one page: TIERS.md.

Runs the benchmarks that measure them, one after the other, and puts what each of them prints under its heading. What is
not run again stays as it was, with the day on which it was measured. Leave the machine alone meanwhile.
"""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).with_name("TIERS.md")
_INTRODUCTION = """# The tiers in numbers

Made by `python -m ops.bench.tiers`, a part at a time (`--only`); each says when it was run, and where. Numbers of
different days or machines do not belong together. Reads of history, beside another server, are in `COLD.md`.
"""


class Part(NamedTuple):
    title: str
    command: tuple[str, ...]
    fenced: bool = False  # what it prints is no Markdown


PARTS = {
    "flush": Part("Sealing the log on one core: at least 150 MB/s", ("ops.bench.flush",)),
    "throughput": Part("Appends while the tiers work: at least 70 % of those without", ("ops.bench.throughput",)),
    "cold": Part("Reading 1 GB that left the log: at least 300 MB/s", ("ops.bench.cold",), fenced=True),
    "bootstrap": Part("A million streams out of a bucket: at most 5 minutes", ("ops.bench.bootstrap",)),
    "hour": Part(
        "An hour of 100,000 quiet streams: at most 300 PUTs and 400 objects",
        ("ops.bench.economics", "hour"),
        fenced=True,
    ),
    "hot": Part(
        "A stream of 20 MB/s beside quiet ones: p99 at most 1.3 times that without tiers",
        ("ops.bench.economics", "hot"),
        fenced=True,
    ),
}


def sections_of(text: str) -> dict[str, str]:
    """What a page has under each heading."""
    _, *rest = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(rest[::2], (body.strip() for body in rest[1::2]), strict=True))


def page_of(sections: dict[str, str]) -> str:
    """The page, with its parts in their order."""
    known = [(part.title, sections[part.title]) for part in PARTS.values() if part.title in sections]
    return "\n".join([_INTRODUCTION, *(f"## {title}\n\n{body}\n" for title, body in known)])


def section_of(part: Part, arguments: list[str]) -> tuple[str, bool]:
    """What a benchmark prints, and whether it ended well."""
    command = [*part.command, *arguments]
    began = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    done = subprocess.run([sys.executable, "-m", *command], stdout=subprocess.PIPE, text=True, check=False)
    lines = [line for line in done.stdout.strip().splitlines() if not line.startswith("minute ")]
    shown = "\n".join(["```", *lines, "```"] if part.fenced else lines)
    told = re.sub(r" --dir \S+", "", " ".join(command))
    return f"`python -m {told}`, {began}.\n\n{shown}", not done.returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ops.bench.tiers", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PARTS, action="append", help="run this part only; may be repeated")
    parser.add_argument("--out", type=Path, default=PAGE, metavar="FILE", help="the page (TIERS.md beside this)")
    parser.add_argument("arguments", nargs="*", help="for the benchmark, after `--`")
    options = parser.parse_args()
    sections = sections_of(options.out.read_text("utf-8")) if options.out.is_file() else {}
    missed = []
    for name in options.only or PARTS:
        body, well = section_of(PARTS[name], options.arguments)
        sections[PARTS[name].title] = body
        missed += [] if well else [name]
        options.out.write_text(page_of(sections), "utf-8")
        print(f"## {PARTS[name].title}\n\n{body}\n", flush=True)
    for name in missed:
        print(f"missed: {name}")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
