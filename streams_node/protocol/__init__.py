"""The rules of the wire, without I/O: offsets, cursors, entity tags, lifetimes, content types, frames, producers.

Owns     nothing; every function here is a plain function of its arguments.
Keeps    no module here imports a room above it, reads a clock, or draws a random number: both come in as arguments.
"""
