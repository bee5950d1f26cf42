"""What the data source returns, against the entries that were put into the bucket."""

import json
import pickle
import random
import re
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as ds

from spark_index.source import StreamsDataSource, plan, register
from streams_node.errors import StreamsError
from streams_node.objects import FolderStore
from streams_node.protocol.offsets import encode
from tests.spark.bucket import BIRTH_US, BUCKETS, Bucket, Entry, entries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.xdist_group("spark"),  # one JVM at a time
    pytest.mark.timeout(300),  # seconds where nobody else works
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # Spark leaves sockets to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Row = tuple[str, str, int, str | None, bytes]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    """Nobody changes it."""
    folder = tmp_path_factory.mktemp("sample")
    return filled(Bucket(FolderStore.open(folder / "objects"), folder))


def filled(bucket: Bucket) -> Bucket:
    """Two packs, a segment, a trim, a deleted stream, another bucket, later epochs, a fork of a fork."""
    bucket.stream(1, "orders", earliest_seq=20)
    bucket.stream(2, "events", bucket=2)
    bucket.stream(3, "epochs", first_epoch=2, epochs=((5, 10),))
    bucket.stream(4, "fork", source=1, fork_seq=50, earliest_seq=20)
    bucket.stream(5, "twice", source=4, fork_seq=60, earliest_seq=20)
    bucket.stream(6, "__own")
    bucket.stream(7, "kept-for-forks", soft_deleted=True)
    bucket.put({1: entries(0, 40), 2: entries(0, 30), 3: entries(0, 8), 9: entries(0, 5)})
    bucket.put({1: entries(40, 900)}, pack=False)
    bucket.put({2: entries(30, 90), 3: entries(8, 25), 4: entries(50, 70, "fork"), 5: entries(60, 64, "twice")})
    bucket.put({6: entries(0, 3), 7: entries(0, 3)})
    for stream, end in {1: 900, 2: 90, 3: 25, 4: 70, 5: 64, 6: 3, 7: 3}.items():
        bucket.end(stream, end)
    bucket.publish()
    return bucket


def rows_of(name: str, held: list[Entry], bucket: int = 1) -> list[Row]:
    return [(BUCKETS[bucket], name, entry.seq, entry.key, entry.payload) for entry in held]


EXPECTED = sorted(
    rows_of("orders", entries(20, 900))
    + rows_of("events", entries(0, 90), bucket=2)
    + rows_of("epochs", entries(0, 25))
    + rows_of("fork", entries(20, 50) + entries(50, 70, "fork"))
    + rows_of("twice", entries(20, 50) + entries(50, 60, "fork") + entries(60, 64, "twice")),
    key=itemgetter(0, 1, 2),
)


def place(bucket: Bucket) -> Path:
    return bucket.folder.parent / "objects" if bucket.folder.name == "work" else bucket.folder / "objects"


def frame(spark: "SparkSession", bucket: Bucket, **options: Any) -> "DataFrame":
    register(spark)
    return spark.read.format("streams").options(store=f"folder:{place(bucket)}", **options).load()


def found(frame: "DataFrame") -> list[Row]:
    picked = frame.select("bucket", "stream", "seq", "key", "payload").collect()
    return sorted(((row[0], row[1], row[2], row[3], bytes(row[4])) for row in picked), key=itemgetter(0, 1, 2))


def read(bucket: Bucket, *conditions: ds.Filter, **options: str) -> list[dict[str, Any]]:
    """What Spark's processes do, in this one: plan with the conditions that can be taken, and read all parts."""
    source = StreamsDataSource({"store": f"folder:{place(bucket)}", **options})
    reader: Any = source.reader(None)  # type: ignore[arg-type] # the columns are what they are
    assert list(reader.pushFilters(list(conditions))) == []
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def seen(rows: list[dict[str, Any]]) -> list[Row]:
    picked = [(row["bucket"], row["stream"], row["seq"], row["key"], row["payload"]) for row in rows]
    return sorted(picked, key=itemgetter(0, 1, 2))


def test_every_entry_that_a_reader_may_see_comes_once(spark: "SparkSession", sample: Bucket) -> None:
    assert found(frame(spark, sample)) == EXPECTED


def test_columns_say_what_the_protocol_says(sample: Bucket) -> None:
    got = sorted(read(sample, stream="epochs", json="true"), key=itemgetter("seq"))
    assert [row["offset"] for row in got] == [encode(2 if seq < 10 else 5, seq + 1) for seq in range(25)]
    assert [row["json"].encode() for row in got] == [entry.payload for entry in entries(0, 25)]
    assert {(row["incarnation"], row["schema_version"]) for row in got} == {(3, 0)}
    assert [round(row["append_ts"].timestamp() * 1_000_000) for row in got] == [entry.ts for entry in entries(0, 25)]


def test_what_is_no_text_has_no_json(bucket: Bucket) -> None:
    payloads = [b'"ok"', b"\xff\x00", "é".encode()]
    bucket.stream(1, "bytes")
    bucket.put({1: [Entry(seq, payload) for seq, payload in enumerate(payloads)]})
    bucket.end(1, 3)
    bucket.publish()
    assert [row["json"] for row in read(bucket, json="true")] == ['"ok"', None, "é"]


def test_a_query_with_conditions_gets_what_they_keep(spark: "SparkSession", sample: Bucket) -> None:
    condition = (
        "seq between 15 and 400 and stream like 'o%' and append_ts >= timestamp_micros(1790000000018000) "
        "and key is not null and (seq % 2 = 0 or seq = 25) and stream <> 'x'"
    )
    expected = [
        row for row in EXPECTED
        if row[1] == "orders" and 18 <= row[2] <= 400 and row[3] and (row[2] % 2 == 0 or row[2] == 25)
    ]  # fmt: skip
    frame_ = frame(spark, sample).where(condition)
    assert found(frame_) == expected


def at(seq: int) -> datetime:
    return datetime.fromtimestamp((BIRTH_US + seq * 1000) / 1_000_000, UTC)


NUMBERS = st.integers(-2, 120)
KEYS = st.sampled_from(["key-0", "key-3", "key-6", "other", ""])
BOUNDS = {
    ds.EqualTo: "__eq__", ds.GreaterThan: "__gt__", ds.GreaterThanOrEqual: "__ge__", ds.LessThan: "__lt__",
    ds.LessThanOrEqual: "__le__",
}  # fmt: skip
Condition = tuple[ds.Filter, Any]


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """A condition, and what it says of a row."""
    match draw(st.sampled_from(["seq", "time", "key", "keys", "keyed", "name", "names", "prefix", "life"])):
        case "seq":
            kind, number = draw(st.sampled_from(list(BOUNDS))), draw(NUMBERS)
            return kind(("seq",), number), lambda row: getattr(row[2], BOUNDS[kind])(number)
        case "time":
            kind, number = draw(st.sampled_from(list(BOUNDS))), draw(NUMBERS)
            return kind(("append_ts",), at(number)), lambda row: getattr(row[2], BOUNDS[kind])(number)
        case "key":
            key = draw(KEYS)
            return ds.EqualTo(("key",), key), lambda row: row[3] == key
        case "keys":
            keys = tuple(draw(st.lists(KEYS, max_size=3)))
            return ds.In(("key",), keys), lambda row: row[3] in keys
        case "keyed":
            return ds.IsNotNull(("key",)), lambda row: row[3] is not None
        case "name":
            name = draw(st.sampled_from(["orders", "fork", "absent"]))
            return ds.EqualTo(("stream",), name), lambda row: row[1] == name
        case "names":
            return ds.In(("stream",), ("events", None, "twice")), lambda row: row[1] in {"events", "twice"}
        case "prefix":
            prefix = draw(st.sampled_from(["", "e", "or", "z"]))
            return ds.StringStartsWith(("stream",), prefix), lambda row: row[1].startswith(prefix)
        case _:
            return ds.EqualTo(("incarnation",), 4), lambda row: row[1] == "fork"


@settings(max_examples=60, deadline=None)
@given(st.lists(conditions(), max_size=4))
def test_conditions_that_are_taken_keep_what_they_would_keep_of_all_rows(
    sample: Bucket, wanted: list[Condition]
) -> None:
    got = seen(read(sample, *(condition for condition, _ in wanted)))
    assert got == [row for row in EXPECTED if all(keeps(row) for _, keeps in wanted)]


def test_big_objects_are_read_in_pieces_and_pruned_ones_in_parts(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = [Entry(seq, random.Random(seq).randbytes(40_000), f"{seq:03d}") for seq in range(200)]
    bucket.stream(1, "big")
    facts = bucket.put({1: big}, pack=False)
    bucket.end(1, 200)
    bucket.publish()
    assert seen(read(bucket, partitionBytes="1000000")) == rows_of("big", big)
    fetched = []
    get = FolderStore.get

    def counted(store: FolderStore, key: Any, start: int = 0, end: int | None = None) -> Any:
        got = get(store, key, start, end)
        if key == facts.key():
            fetched.append(len(got.data))
        return got

    monkeypatch.setattr(FolderStore, "get", counted)
    assert seen(read(bucket, ds.LessThan(("append_ts",), at(10)))) == rows_of("big", big[:10])
    assert seen(read(bucket, ds.EqualTo(("key",), "150"))) == rows_of("big", big[150:151])
    assert sum(fetched) < facts.bytes


def test_of_many_streams_a_part_names_those_that_its_pack_holds(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in range(1, 301):
        bucket.stream(stream, f"s{stream:03d}")
        bucket.end(stream, 20)
    # The first pack has all of them, others a few: of two of them what was trimmed, or is another stream's.
    bucket.put({stream: entries(0, 10) for stream in range(1, 301)})
    bucket.put({stream: entries(10, 20) for stream in range(1, 301, 100)})
    bucket.put({stream: entries(10, 20) for stream in range(1, 301) if stream % 100 != 1})
    bucket.stream(1, "s001", earliest_seq=10)
    bucket.publish()
    expected = seen(read(bucket))
    assert len(expected) == 300 * 20 - 10
    monkeypatch.setattr(plan, "VIEWS_MAX", 50)
    assert seen(read(bucket)) == expected
    reader: Any = StreamsDataSource({"store": f"folder:{place(bucket)}"}).reader(None)  # type: ignore[arg-type] # as above
    assert sorted(len(part.value.views) for part in reader.partitions()) == [3, 297, 299]


def test_a_damaged_object_fails_the_read_and_others_are_read(bucket: Bucket) -> None:
    filled(bucket)
    victim = next(path for path in (place(bucket) / "segments").rglob("*.parquet"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 3] ^= 1
    victim.chmod(0o644)
    victim.write_bytes(data)
    with pytest.raises(StreamsError, match=r"damaged|SHA-256"):
        read(bucket, stream="orders")
    with pytest.raises(StreamsError, match="damaged"):
        read(bucket, ds.LessThan(("append_ts",), at(100)), stream="orders")
    assert len(read(bucket, stream="agents/*")) == 90


def test_streams_of_the_node_come_when_they_are_asked_for(sample: Bucket) -> None:
    assert {row["stream"] for row in read(sample, stream="__*")} == {"__own"}
    assert read(sample, stream="kept-for-forks") == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"store": "folder:/x", "stroam": "x"}, "unknown options of `streams`: stroam"),
        ({"store": "ftp://x"}, "folder:/path or s3://bucket/prefix"),
        ({"store": "folder:relative"}, "absolute path"),
        ({}, '"store" is missing'),
        ({"store": "folder:/x", "json": "yes"}, '"json" must be true or false'),
        ({"store": "folder:/x", "startingOffsets": "now"}, "earliest or latest"),
        ({"store": "folder:/x", "maxEntriesPerTrigger": "0"}, "from 1 on"),
        ({"store": "s3://b", "access_key_id": "x"}, "secret_access_key"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(options: dict[str, str], reason: str) -> None:
    with pytest.raises((ValueError, StreamsError), match=re.escape(reason)):
        StreamsDataSource(options)


def test_a_place_without_a_catalogue_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    reader = StreamsDataSource({"store": f"folder:{tmp_path / 'empty'}"}).reader(None)  # type: ignore[arg-type] # as above
    with pytest.raises(StreamsError, match="holds no catalogue"):
        reader.partitions()


# --- streaming ------------------------------------------------------------------------------------------------------


def drain(spark: "SparkSession", bucket: Bucket, folder: Path, **options: Any) -> list[Row]:
    """Run the query to the end of what there is; what its sink holds after that."""
    register(spark)
    stream = spark.readStream.format("streams").options(store=f"folder:{place(bucket)}", **options).load()
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "sink"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found(spark.read.parquet(str(folder / "sink")))


def test_a_streaming_query_gets_each_entry_once_over_restarts_and_merges(
    spark: "SparkSession", bucket: Bucket, tmp_path: Path
) -> None:
    sample = filled(bucket)
    old = [record for record in sample.objects if record.kind == "pack"]
    assert drain(spark, sample, tmp_path) == EXPECTED
    # The packs of before are merged, and new entries come: into the merged pack, and as a segment.
    sample.put(
        {
            1: entries(0, 40), 2: entries(0, 120), 3: entries(0, 40), 4: entries(50, 70, "fork"),
            5: entries(60, 64, "twice"),
        },
        level=1,
    )  # fmt: skip
    for facts in old:
        sample.drop(facts)
    sample.put({1: entries(900, 950)}, pack=False)
    sample.stream(8, "later-fork", source=2, fork_seq=10)
    for stream, end in {1: 950, 2: 120, 3: 40, 8: 10}.items():
        sample.end(stream, end)
    sample.publish()
    more = (
        rows_of("orders", entries(900, 950)) + rows_of("events", entries(90, 120), bucket=2)
        + rows_of("epochs", entries(25, 40)) + rows_of("later-fork", entries(0, 10))
    )  # fmt: skip
    assert drain(spark, sample, tmp_path) == sorted(EXPECTED + more, key=itemgetter(0, 1, 2))


def test_batches_of_at_most_so_many_entries_come_to_the_same(sample: Bucket) -> None:
    options = {"store": f"folder:{place(sample)}", "stream": "agents/*", "maxEntriesPerTrigger": "40"}
    reader: Any = StreamsDataSource(options).streamReader(None)  # type: ignore[arg-type] # as above
    position, sizes, rows = reader.initialOffset(), [], list[Row]()
    limit = reader.getDefaultReadLimit()
    while (end := reader.latestOffset(position, limit)) != position:
        kept = json.loads(json.dumps(end))  # as a checkpoint does
        batch = [
            row
            for part in reader.partitions(position, kept)
            for each in pickle.loads(pickle.dumps(reader)).read(part)  # noqa: S301 - of our own
            for row in each.to_pylist()
        ]
        sizes.append(len(batch))
        rows += seen(batch)
        position = kept
    reader.stop()
    assert sizes == [40, 40, 10]
    assert rows == [row for row in EXPECTED if row[0] == "agents"]


def test_a_query_from_the_latest_entry_gets_only_what_comes_then(bucket: Bucket) -> None:
    filled(bucket)
    options = {"store": f"folder:{place(bucket)}", "startingOffsets": "latest"}
    reader: Any = StreamsDataSource(options).streamReader(None)  # type: ignore[arg-type] # as above
    start = reader.initialOffset()
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == start
    assert reader.partitions(start, start) == []
    bucket.stream(11, "new")
    bucket.put({3: entries(25, 30), 11: entries(0, 4)})
    bucket.end(3, 30)
    bucket.end(11, 4)
    bucket.publish()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    parts = reader.partitions(start, end)
    assert len(parts) == 1  # the objects of before hold nothing new, and are not opened
    got = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    assert seen(got) == rows_of("epochs", entries(25, 30)) + rows_of("new", entries(0, 4))
    reader.stop()
