"""Strong entity tags of reads: they change with the incarnation, the range, the closure and the form of the answer."""


def etag(stream: int, start: int, end: int, *, closed: bool, form: str = "") -> str:
    """The tag of entries [start, end) of one incarnation; `form` names format, key, filter and schema version."""
    return f'"{stream:x}:{start:x}:{end:x}{":" + form if form else ""}{":c" if closed else ""}"'


def matches(header: str, tag: str) -> bool:
    """Whether an `If-None-Match` value (a list, weak forms, or `*`) names this tag."""
    if header.strip() == "*":
        return True
    tag = tag.removeprefix("W/")
    return any(candidate.strip().removeprefix("W/") == tag for candidate in header.split(","))
