"""The routes of the admin page, in words."""

from collections.abc import Mapping

from streams_node.http.operation import Answer, Operation

UI_OPERATIONS: Mapping[str, Operation] = {
    "ui": Operation(
        "The admin page: the streams of this node, to look at and to work with; it needs nothing from elsewhere.",
        "If-None-Match",
        (
            Answer(200, "The page.", "ETag Cache-Control Content-Security-Policy Referrer-Policy", "html"),
            Answer(304, "The browser has it.", "ETag Cache-Control Content-Security-Policy Referrer-Policy"),
        ),
        "",
    ),
    "ui.asset": Operation(
        "A script or a style of the admin page. An address has the hash of all files in it and never changes.",
        "If-None-Match",
        (
            Answer(200, "The file.", "ETag Cache-Control", "text"),
            Answer(304, "The browser has it.", "ETag Cache-Control"),
        ),
        "not_found",
    ),
}
