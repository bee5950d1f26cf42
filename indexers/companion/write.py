"""Builds a companion: columns of many records in, one file out.

Tantivy takes documents as JSON. It fails a whole batch for one value of a type that it does not expect, so that what
reaches it has the column's type already, whatever the record had.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import tantivy

from indexers.companion.layout import HAS, INEXACT, ROW, SEG, TERM_BYTES_MAX, TS, ColumnsOf, Layout
from indexers.companion.pack import Directory, FieldFacts, write_pack
from indexers.companion.stitch import META, named_by_content
from indexers.messages import Cover
from indexers.records import Column, Table
from indexers.runs import Written
from search.language import Canonical, words
from search.language.dates import MS_NS
from streams_node.schema.search_config import Kind

# Of documents in the making; beyond it a segment is written. One of 20 MB of log events needs about this much, and a
# companion of few segments is merged and searched at less cost.
HEAP_BYTES = 64_000_000
# Of what is ASCII: letters in lower case, digits, and a space for anything else. Ten times as fast on bytes as on text.
_LOWER_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
_CHARS_SURE = TERM_BYTES_MAX // 4  # text of so few characters has no longer term, however they are spelled
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_BOUNDED = (Kind.INTEGER, Kind.FLOAT, Kind.DATE)
_Inexact = dict[int, list[str]]  # documents of a batch -> the columns that do not hold all


class Writer:
    """One companion in the making, in a folder of its own that does not exist yet. Not for two threads."""

    def __init__(self, config: str, layout: Layout, folder: Path) -> None:
        self._config = config
        self._layout = layout
        self._folder = folder
        self._writer: tantivy.IndexWriter | None = None
        self._facts = {each.field.name: _Facts(each) for each in layout.columns}
        self._docs = 0

    def add(self, streams: Sequence[int], seqs: Sequence[int], times: Sequence[int], table: Table) -> None:
        """The next documents: which entries they are, when they were appended, and what is in them."""
        full: dict[str, Sequence[Any]] = {SEG: streams, ROW: seqs, TS: times}
        sparse: dict[str, Sequence[Any]] = {}
        inexact: _Inexact = {}
        has: list[tuple[str, list[Any]]] = []
        for columns in self._layout.columns:
            column = table.column(columns.field)
            self._facts[columns.field.name].note(column)
            for name, values in _physical(columns, column, inexact):
                if None in values:
                    sparse[name] = values
                else:
                    full[name] = values
            if not columns.fast:
                has.append((columns.column, column.values))
        if has:
            full[HAS] = _marks(has)
        documents = _documents(full, sparse)
        for at, found in inexact.items():
            documents[at][INEXACT] = found
            for name in found:
                self._facts[self._name_of(name)].inexact += 1
        self._feed(documents)

    def rest(self) -> None:
        """Write what was added, and give the memory back. More may be added."""
        if self._writer is not None:
            self._writer.commit()
            self._writer.wait_merging_threads()
            self._writer = None

    def finish(self, target: Path, objects: Sequence[str], covers: Sequence[Cover]) -> Written:
        """The companion as a file; the folder is used up."""
        if self._writer is None and not self._docs:
            self._open()
        self.rest()
        names = named_by_content(self._folder)
        directory = Directory(
            config=self._config,
            docs=self._docs,
            min_ts=min((cover.min_ts for cover in covers), default=0),
            max_ts=max((cover.max_ts for cover in covers), default=0),
            objects=list(objects),
            covers=list(covers),
            fields=[self._facts[each.field.name].facts() for each in self._layout.columns],
            files=[],
        )
        return write_pack(target, self._folder, names, directory)

    def _name_of(self, column: str) -> str:
        return self._layout.columns[int(column[1:])].field.name

    def _open(self) -> tantivy.IndexWriter:
        if self._writer is None:
            if (self._folder / META).exists():
                index = tantivy.Index.open(str(self._folder))
            else:
                self._folder.mkdir(parents=True)
                index = tantivy.Index(self._layout.schema(), str(self._folder))
            self._writer = index.writer(HEAP_BYTES, 1)  # one thread: documents stay in order
        return self._writer

    def _feed(self, documents: list[dict[str, Any]]) -> None:
        add = self._open().add_json
        for document in documents:
            try:
                add(orjson.dumps(document).decode())
            except (TypeError, ValueError):  # text that is not Unicode
                self._feed_inexact(document)
        self._docs += len(documents)

    def _feed_inexact(self, document: dict[str, Any]) -> None:
        """The document without the values that cannot be written."""
        marked = set(document.get(INEXACT, ()))
        for name, value in list(document.items()):
            values = value if isinstance(value, list) else [value]
            sound = [each for each in values if not isinstance(each, str) or _is_unicode(each)]
            if len(sound) < len(values):
                marked.add(name)
                self._facts[self._name_of(name)].inexact += 1
                document[name] = sound
        try:
            self._open().add_json(json.dumps({**document, INEXACT: sorted(marked)}))
        except ValueError:  # nothing is known that would do it; but an entry that is not there would be lost silently
            self._feed_bare(document)

    def _feed_bare(self, document: dict[str, Any]) -> None:
        """Which entry it is, and that nothing is known of it."""
        columns = [each.column for each in self._layout.columns]
        for facts in self._facts.values():
            facts.inexact += 1
        self._open().add_json(json.dumps({name: document[name] for name in (SEG, ROW, TS)} | {INEXACT: columns}))


class _Facts:
    """What the documents have in one field."""

    def __init__(self, columns: ColumnsOf) -> None:
        self._columns = columns
        self._docs = 0
        self.inexact = 0
        self._least: Any = None
        self._most: Any = None

    def note(self, column: Column) -> None:
        self._docs += column.present()
        if self._columns.field.kind in _BOUNDED:
            values = _known(column)
            if values:
                least, most = min(values), max(values)
                self._least = least if self._least is None else min(least, self._least)
                self._most = most if self._most is None else max(most, self._most)

    def facts(self) -> FieldFacts:
        return FieldFacts(
            name=self._columns.field.name,
            column=self._columns.column,
            docs=self._docs,
            inexact=self.inexact,
            least=None if self._least is None else repr(self._least),
            most=None if self._most is None else repr(self._most),
        )


def _documents(full: Mapping[str, Sequence[Any]], sparse: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """A document a row: Tantivy takes no null, so what is sparse is put in where there is something."""
    names = tuple(full)
    documents = [dict(zip(names, row, strict=True)) for row in zip(*full.values(), strict=True)]
    for name, values in sparse.items():
        for document, value in zip(documents, values, strict=True):
            if value is not None:
                document[name] = value
    return documents


def _physical(columns: ColumnsOf, column: Column, inexact: _Inexact) -> list[tuple[str, list[Any]]]:
    """The Tantivy columns of a field, each with a value, a list of values, or None, for each document."""
    kind, name = columns.field.kind, columns.column
    if kind is Kind.KEYWORD:
        return [(name, _keywords(name, column, inexact))]
    if kind is Kind.TEXT:
        for at in column.many:  # a clause wants all its words in one value
            _note(inexact, at, name)
        return [(name, _worded(name, column, inexact))]
    if kind is Kind.INTEGER:
        return [(name, _clamped(name, column, inexact))]
    if columns.ms is not None:
        clamped = _clamped(name, column, inexact)
        if None not in column.values and not column.many:
            return [(name, clamped), (columns.ms, [ns // MS_NS for ns in column.values])]
        return [(name, clamped), (columns.ms, _each(column, lambda ns: ns // MS_NS))]
    return [(name, _each(column, None))]


def _each(column: Column, change: Any) -> list[Any]:
    """All values, changed; a list where a record has several."""
    if change is None:
        found = column.values
    elif None in column.values:
        found = [None if value is None else change(value) for value in column.values]
    else:
        found = list(map(change, column.values))
    if column.many:
        found = list(found)
        for at, values in column.many.items():
            found[at] = values if change is None else list(map(change, values))
    return found


def _clamped(name: str, column: Column, inexact: _Inexact) -> list[Any]:
    """Integers of 64 bits."""
    known = _known(column)
    if not known or (min(known) >= _INT_MIN and max(known) <= _INT_MAX):
        return _each(column, None)
    for at in range(len(column.values)):
        if any(not _INT_MIN <= int(value) <= _INT_MAX for value in column.of(at)):
            _note(inexact, at, name)
    return _each(column, lambda value: min(_INT_MAX, max(_INT_MIN, value)))


def _keywords(name: str, column: Column, inexact: _Inexact) -> list[Any]:
    if _longest(column) <= _CHARS_SURE:
        return _each(column, None)
    found: list[Any] = []
    for at in range(len(column.values)):
        values = column.of(at)
        fitting = [value for value in values if _fits(value)]
        if len(fitting) < len(values):
            _note(inexact, at, name)
        found.append(fitting or None)
    return found


def _worded(name: str, column: Column, inexact: _Inexact) -> list[Any]:
    """The words of each text, joined by spaces: Tantivy splits them there again."""
    if _longest(column) <= _CHARS_SURE:
        return _each(column, _spaced)
    found: list[Any] = []
    for at in range(len(column.values)):
        texts = list[str]()
        for value in column.of(at):
            known = words(str(value))
            fitting = list(filter(_fits, known))
            if len(fitting) < len(known):
                _note(inexact, at, name)
            texts.append(" ".join(fitting))
        found.append(texts or None)
    return found


def _note(inexact: _Inexact, at: int, name: str) -> None:
    names = inexact.setdefault(at, [])
    if name not in names:
        names.append(name)


def _known(column: Column) -> list[Any]:
    values = column.flat()
    return [value for value in values if value is not None] if None in values else values


def _longest(column: Column) -> int:
    values = column.flat()
    return max(map(len, filter(None, values) if None in values else values), default=0)


def _spaced(text: str) -> str:
    """The words of a text with white space between them: of what is ASCII, at the speed of C."""
    if text.isascii():
        return text.encode().translate(_LOWER_WORDS).decode()
    return " ".join(words(text))


def _fits(term: Canonical) -> bool:
    text = str(term)
    return len(text) <= _CHARS_SURE or len(text.encode("utf-8", "surrogatepass")) <= TERM_BYTES_MAX


def _marks(has: Sequence[tuple[str, list[Any]]]) -> list[str]:
    """The column `has`: mostly one text for all documents."""
    names = ["," + name for name, values in has if None not in values]
    marks = ["".join(names)] * len(has[0][1])
    for name, values in has:
        if None in values:
            marks = [mark if value is None else f"{mark},{name}" for mark, value in zip(marks, values, strict=True)]
    return [mark and mark + "," for mark in marks]


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
