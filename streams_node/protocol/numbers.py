"""The kinds of integers that cross rooms, so that two bare `int`s never meet."""

from typing import NewType

StreamId = NewType("StreamId", int)  # one incarnation of a stream; never used twice
BucketId = NewType("BucketId", int)
RowId = NewType("RowId", int)  # a row of the log
Seq = NewType("Seq", int)  # counts entries of a stream from 0
Epoch = NewType("Epoch", int)
Micros = NewType("Micros", int)  # microseconds since 1970
