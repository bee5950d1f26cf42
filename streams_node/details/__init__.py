"""Shows all that is known of a stream, or of its indexes, and wakes those who wait for another state of it.

Owns     what was shown last of the streams that somebody looks at, and who waits for each (`Watches`).
Pulls    commits (the stream's hub), generations of the catalogue, and the bell of the index desk.
Hands on a body and its tag. The tag is made of change numbers (decisions/0013): no read moves it.
Keeps    one computation for each change, however many wait. A body is of one moment of the database, and of a commit
         that this moment has. What no tag tells of (requests, copies on disk) is at most a second old.
Dies     at any point: all of it is made anew from what is stored, with the same tags.
"""

from streams_node.details.moment import Kept, Moment, Parts, held, look, summed
from streams_node.details.producers import Seen, Turn, Turns, seen, turns
from streams_node.details.watches import Make, News, Shown, Watches, What

__all__ = [
    "Kept", "Make", "Moment", "News", "Parts", "Seen", "Shown", "Turn", "Turns", "Watches", "What", "held", "look",
    "seen", "summed", "turns",
]  # fmt: skip
