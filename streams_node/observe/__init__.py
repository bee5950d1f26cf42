"""What the node says about itself: log lines and numbers. Import the part you need; nothing is loaded here.

Owns     the shape of a log line (`logs`) and the numbers behind `/metrics` (`metrics`).
Pulls    nothing: rooms call in, owners of a state hand over a function that a scrape calls.
Hands on lines on stderr, and Prometheus text.
Keeps    no header, no body and no stream name leaves through a log line's fields or a metric's labels by accident;
         counting costs well under a microsecond and never waits.
Dies     at any point: numbers start again from zero, as Prometheus expects.
"""
