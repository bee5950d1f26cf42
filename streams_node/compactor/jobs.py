"""What the plan decides about: objects, limits, and the job that comes out."""

from typing import Literal, NamedTuple

from streams_node.config.quantity import HOUR_MS, MiB
from streams_node.placement.backlog import Pack
from streams_node.placement.made import ObjectFacts

JOB_BYTES = 128 * MiB  # payload of the inputs of one job: a second or two of work, and what is lost when a worker dies
SEGMENTS_MAX = 64  # small segments in one job: their files are open at the same time
OLDER_RUNS_MAX = 16  # of streams with segments in between: so many become segments of their own, more share a pack
DROPS_MAX = 1000  # objects that one job drops; they are a line each in the catalogue


class Limits(NamedTuple):
    """The settings that the plan and the builder go by; sizes are of payload."""

    packs: int = 8
    own_segment_bytes: int = 1 * MiB
    segment_bytes: int = 16 * MiB
    segment_entries: int = 100_000
    pack_bytes: int = 64 * MiB
    job_bytes: int = JOB_BYTES
    dead_us_max: int = 24 * HOUR_MS * 1000
    run_bytes: int = 128  # what a stream of a pack weighs at least, however small its entries are: a job's memory
    entry_bytes: int = 16  # and an entry

    def weight(self, facts: ObjectFacts) -> int:
        """What an object counts for in a job: its payload, or what a job has to remember of it."""
        return max(facts.payload_bytes, facts.streams * self.run_bytes, facts.entries * self.entry_bytes)


Kind = Literal["merge", "split", "clean", "segments", "drop"]


class Job(NamedTuple):
    """Objects to be rewritten: `level` and the stretch of log rows are those of the packs that come out.

    merge     packs of one slot, next to each other in the log, become packs of the next level
    split     one pack is cut at `cuts`, as its slot takes too much with it
    clean     one pack loses what is dead in it
    segments  small segments that follow each other become one, of several streams at a time
    drop      everything in them is dead: nothing comes out
    """

    kind: Kind
    inputs: tuple[ObjectFacts, ...]
    level: int = 0
    first_row: int = 0
    last_row: int = 0
    cuts: tuple[int, ...] = ()  # stream ids at which a pack of the output must begin

    @property
    def payload_bytes(self) -> int:
        return sum(facts.payload_bytes for facts in self.inputs)


class Backlog(NamedTuple):
    """What there is to choose from."""

    packs: list[Pack]
    small: dict[int, list[ObjectFacts]]  # segments that are not full, by stream, in the order of their entries
    gone: list[ObjectFacts]  # segments of streams that are gone
