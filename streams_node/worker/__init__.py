"""A process beside the node for work that would hold the interpreter's lock, or the memory, of the node for long.

Owns     one child process a `Worker`, and the pipes to it.
Pulls    commands, one at a time and in order; `commands.py` says which function of which room each of them is.
Hands on what the function returned, or the error that it raised, as the same class; a child's log lines.
Keeps    a child never outlives its node: it ends when the pipe to it does, at whatever moment. It takes no signal of
         the terminal, has low priority, is the first to go when memory runs out, and ends when it is idle for long.
Dies     child: `WorkerFailed`, and the next command starts another one, later each time. Node: the child ends at once.
         In both cases the command's files are unfinished or unnamed; whoever asked for them empties their folder.

    from streams_node.worker.parent import Worker
    worker = Worker("segmenter", idle_s=60)
    answer = await worker.run("seal", {...}, timeout_s=300)     # WorkerFailed, or what StreamsError the child raised
    await worker.stop()                                         # ends the child, also in the middle of a command

A command is a function from a dict to a dict, both of what JSON can hold; it may block, and runs on the child's main
thread. Bytes travel as base64 (msgspec's way). Cancelling `run` kills the child: nobody waits for its answer any more.
"""
