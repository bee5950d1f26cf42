"""The edge: HTTP in, decisions and pages out.

Owns     connections, and the bytes of requests and answers while they pass.
Pulls    requests. The hot ones (a stream's PUT, POST, GET, HEAD, DELETE) are raw ASGI handlers; Litestar has the rest.
Hands on parsed requests to `ingest`, `read` and `live`.
Keeps    every route stands in `routes.py` with its class and access rule; every failure leaves through `problems.py`;
         nothing of a client (body, header, queue, buffer, waiter, connection) is without a bound.
Dies     an answer that was not sent says nothing; what a client may assume then is in the manual.
"""
