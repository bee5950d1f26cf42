"""What the machine draws: names, bodies, offsets and everything else that a request is made of."""

from hypothesis import strategies as st

from tests.model.world import Name, written

NAMES = [
    Name("_default", "a"), Name("_default", "é %"), Name("shop", "a"), Name("shop", "b"), Name("shop", "deep/er"),
    Name("kiosk", "a"),
]  # fmt: skip
BUCKETS = ["shop", "kiosk", "_default", "none"]
JSON, TEXT, BYTES = "application/json", "text/plain; charset=utf-8", "image/png"
TYPES = [JSON, JSON, TEXT, BYTES, "Application/JSON; x=y", None]
MALFORMED: list[dict[str, str]] = [
    {"producer-id": "p"}, {"producer-id": "p", "producer-epoch": "1"}, {"stream-seq": ""}, {"stream-timestamp": "soon"},
    {"producer-id": "", "producer-epoch": "0", "producer-seq": "0"}, {"content-type": "nonsense"},
    {"producer-id": "p", "producer-epoch": "-1", "producer-seq": "0"},
]  # fmt: skip

buckets = st.sampled_from(BUCKETS)
surfaces = st.booleans()
rarely = st.integers(0, 9).map(lambda number: number == 0)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.one_of(st.integers(-99, 99), texts, st.lists(st.integers(0, 9), max_size=2), st.just("x" * 700))
json_bodies = st.one_of(st.lists(values, min_size=1, max_size=4).map(written), values.map(written))
bodies = st.one_of(
    json_bodies,
    json_bodies,
    st.binary(min_size=1, max_size=12),
    st.sampled_from([b"", b"[]", b"{", b"[1,]", b"\xff", b'"' + b"y" * 5000 + b'"', b" a\r\nb\rc\n d", b"\n\n"]),
)
producers = st.one_of(
    st.none(),
    st.none(),
    st.tuples(
        st.sampled_from(["p", "q"]),
        st.sampled_from(["next", "next", "again", "gap", "epoch", "epoch", "stale", "jump"]),
    ),
)
sequences = st.one_of(st.none(), st.none(), st.none(), st.sampled_from(["a", "b", "bb", "é", "z"]))
lifetimes = st.sampled_from(
    [None, None, None, "ttl 5", "ttl 60", "ttl 60", "ttl 600", "ttl 0", "at 30", "at 1000", "at -5"]
)
offsets = st.one_of(
    st.sampled_from(["none", "-1", "now", "alias", "tail", "tail", "beyond", "later-epoch", "garbage", "lower"]),
    st.integers(0, 40),
)
