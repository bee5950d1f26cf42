"""A receiver as a program of its own, so that it can be killed: notes each wake in a file, then says that it is done.

python receiver_process.py PORT FILE
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from typing_extensions import override


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with open(sys.argv[2], "ab") as notes:  # noqa: PTH123 - appended to by one process after the other
            notes.write(body + b"\n")
            notes.flush()
            os.fsync(notes.fileno())
        answer = b'{"done":true}'
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
