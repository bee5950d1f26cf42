"""`streams-node stream`: a client of a running node, for people and scripts."""

from cyclopts import App

from streams_node.cli.stream_read import list_streams, read, tail
from streams_node.cli.stream_write import append, close, create, remove

app = App(name="stream", help="Create, write, read and list streams of a node. NAME is `stream` or `bucket/stream`.")
app.command(create, name="create")
app.command(append, name="append")
app.command(read, name="read")
app.command(tail, name="tail")
app.command(close, name="close")
app.command(remove, name="rm")
app.command(list_streams, name="ls")
