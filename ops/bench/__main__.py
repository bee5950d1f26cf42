"""`python -m ops.bench`: run the comparison and write RESULTS.md.

Exit code 0: every measurement is valid; 1: some are void; 2: cannot run, and why; 130: interrupted.
"""

import signal
import sys
from types import FrameType

from ops.bench import machine, peers, report
from ops.bench.catalog import all_cells, chosen_cells
from ops.bench.errors import CannotRunError
from ops.bench.load import ensure_wrk
from ops.bench.options import Options, parse
from ops.bench.runner import run_cells, say
from ops.bench.servers import ServerSpec, ensure_ours, specs
from ops.bench.sse import raise_open_files

EXIT_OK, EXIT_VOID, EXIT_CANNOT_RUN, EXIT_INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    try:
        return _act(options)
    except CannotRunError as error:
        say(f"cannot run: {error}")
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        say("interrupted; all servers were ended")
        return EXIT_INTERRUPTED


def _act(options: Options) -> int:
    if options.list_cells:
        for cell in all_cells(options):
            print(f"{cell.info.name:<20} {cell.info.title}")
        return EXIT_OK
    run = report.load(options.out_dir) if options.report_only else _measure(options)
    report.write_markdown(run, [cell.info for cell in all_cells(options)], options.out_dir)
    say(f"\nwrote RESULTS.md and results.json to {options.out_dir}")
    return EXIT_VOID if any(sample.void for sample in run.samples) else EXIT_OK


def _measure(options: Options) -> report.Run:
    machine.ensure_linux()
    wrk_version = ensure_wrk()
    machine.ensure_real_disk(options.work_dir)
    cells, servers = chosen_cells(options), specs(options.servers, options.ours_command)
    if any(spec.ours for spec in servers):
        ensure_ours(options.ours_command)
    if any(not spec.ours for spec in servers):
        peers.ensure_installed()
    raise_open_files()
    signal.signal(signal.SIGTERM, _interrupt)
    run = report.Run(
        rounds=options.rounds,
        seconds=options.seconds,
        machine=machine.facts(options.work_dir, wrk_version),
        servers={spec.name: _side(spec) for spec in servers},
        samples=[],
    )
    for samples in run_cells(cells, servers, options):
        run.samples.extend(samples)
        report.save(run, options.out_dir)  # after every cell: an interrupted run can still be told by --report-only
    return run


def _side(spec: ServerSpec) -> dict[str, str]:
    return {
        "title": spec.title,
        "version": spec.version(),
        "settings": spec.settings,
        "durability": spec.durability,
    }


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
