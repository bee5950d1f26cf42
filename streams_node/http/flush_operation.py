"""What flushing takes and gives, in words: a part of operations.py."""

from streams_node.http.operation import Answer, Operation

FLUSH = Operation(
    "Seals the whole log up to this moment and publishes it, so that everything the stream holds now is in the bucket. "
    "That happens by itself within `flush_ms_max`.",
    "",
    (
        Answer(200, "It is in the bucket.", "Cache-Control", "view"),
        Answer(202, "It has begun and goes on; ask again.", "Cache-Control", "view"),
    ),
    "bad_request not_found overloaded",
)

FLUSH_COLD = FLUSH._replace(
    inputs="min_hot_bytes max_bytes.flush",
    answers=(
        *FLUSH.answers,
        Answer(204, "There was nothing to do, or too little for `min_hot_bytes`.", "Cache-Control"),
    ),
)
