"""A receiver that works on a wake before it acknowledges it, as a program of its own, so that it can be killed.

It takes each wake at once, works for a moment, and calls back until it is answered. Everything that it is told, and
every answer that it gets, is noted in a file before anything else happens.

python working_receiver.py PORT NOTES NODE, where the file NODE holds the port that the node has at the moment
"""

import http.client
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

PORT, NOTES, NODE = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
WORK_S = 0.05  # at most
PAUSE_S = 0.02
_noting = threading.Lock()
_random = Random(PORT)


def note(line: dict[str, Any]) -> None:
    with _noting, NOTES.open("ab") as notes:
        notes.write(json.dumps(line).encode() + b"\n")
        notes.flush()
        os.fsync(notes.fileno())


def work(wake: dict[str, Any]) -> None:
    """Done with all of it after a while; what was not answered is said again."""
    time.sleep(_random.random() * WORK_S)
    acks = {each["path"]: each["tail_offset"] for each in wake["streams"] if each["has_pending"]}
    said = {
        "wake_id": wake["wake_id"], "generation": wake["generation"], "done": True,
        "acks": [{"stream": path, "offset": offset} for path, offset in acks.items()],
    }  # fmt: skip
    while True:
        try:
            status = call_back(wake, said)
        except (OSError, http.client.HTTPException, ValueError):  # the node is away, or just comes back
            status = 503
        if status not in {408, 429, 503}:
            break
        time.sleep(PAUSE_S)
    note({"answered": status, "generation": wake["generation"], "acks": acks})


def call_back(wake: dict[str, Any], said: dict[str, Any]) -> int:
    headers = {"authorization": f"Bearer {wake['callback_token']}", "content-type": "application/json"}
    connection = http.client.HTTPConnection("127.0.0.1", int(NODE.read_text()), timeout=10)
    try:
        connection.request("POST", urlsplit(wake["callback_url"]).path, json.dumps(said), headers)
        return connection.getresponse().status
    finally:
        connection.close()


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        wake = json.loads(self.rfile.read(int(self.headers["content-length"])))
        note({"told": wake})
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
        threading.Thread(target=work, args=(wake,), name=wake["wake_id"], daemon=True).start()

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
