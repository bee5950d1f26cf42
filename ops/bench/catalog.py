"""Every cell of the benchmark, in the order in which they run."""

from fnmatch import fnmatch

from ops.bench.appends import append_cells
from ops.bench.catchup import catchup_cells
from ops.bench.cell import Cell
from ops.bench.errors import CannotRunError
from ops.bench.million import million_cell
from ops.bench.options import Options
from ops.bench.sse import sse_cells
from ops.bench.startup import StartupCell


def chosen_cells(options: Options) -> list[Cell]:
    cells = [cell for cell in all_cells(options) if any(fnmatch(cell.info.name, each) for each in options.cells)]
    if not cells:
        raise CannotRunError(f"no cell is called {', '.join(options.cells)}; see --list")
    return cells


def all_cells(options: Options) -> list[Cell]:
    bodies = options.work_dir / "bodies"
    appends = append_cells(seconds=options.seconds, warmup_seconds=options.warmup_seconds, body_folder=bodies)
    catchups = catchup_cells(
        megabytes=options.catchup_mb, seconds=options.seconds, settle_seconds_max=options.settle_seconds_max
    )
    live, idle = sse_cells(readers=options.sse_readers, events=options.sse_events, idle_readers=options.idle_readers)
    cells: list[Cell] = [*appends, *catchups, live, StartupCell(), idle]
    if options.million_data is not None:
        cells.append(
            million_cell(
                data=options.million_data.resolve(),
                preload=options.million_preload,
                warm=options.million_warm,
                seconds=options.seconds,
                body_folder=bodies,
            )
        )
    return cells
