"""Builds a companion: columns of many records in, one file out."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from indexers.companion.layout import BLOCK, HAS, INEXACT, ROW, SEG, TERM_BYTES_MAX, TS, ColumnsOf, Layout
from indexers.companion.pack import Directory, FieldFacts, write_pack
from indexers.companion.stitch import META, named_by_content
from indexers.companion.texts import Texts, translated
from indexers.companion.zones import BOUNDED, Zones, blocks_of, bounds, wider
from indexers.messages import Cover
from indexers.records import Column, Table, milliseconds
from indexers.runs import Written
from search.language import words
from search.language.dates import MS_NS
from streams_node.schema.search_config import Kind

# Of documents in the making; beyond it a segment is written. One of 20 MB of log events needs about this much, and a
# companion of few segments is merged and searched at less cost.
HEAP_BYTES = 64_000_000
# Of what is ASCII: letters in lower case, digits, and a space for anything else. Ten times as fast on bytes as on text.
_LOWER_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)).ljust(256)
_BYTES_SURE = TERM_BYTES_MAX // 4  # text of so few bytes has no longer term, in lower case neither
_INT_MIN, _INT_MAX = -(2**63), 2**63 - 1
_WORDED = (Kind.KEYWORD, Kind.TEXT)
_WHOLE = (Kind.INTEGER, Kind.DATE)
_Inexact = dict[int, list[str]]  # documents of a batch -> the columns that do not hold all


class Writer:
    """One companion in the making, in a folder of its own that does not exist yet. Not for two threads."""

    def __init__(self, config: str, layout: Layout, folder: Path) -> None:
        self._config = config
        self._layout = layout
        self._schema = layout.schema()
        self._folder = folder
        self._writer: tantivy.IndexWriter | None = None
        self._facts = {each.field.name: _Facts(each) for each in layout.columns}
        self._zones = Zones(each.field for each in layout.columns)
        self._docs = 0

    def add(self, streams: Sequence[int], seqs: Sequence[int], times: Sequence[int], table: Table) -> None:
        """The next documents: which entries they are, when they were appended, and what is in them."""
        if not seqs:
            return
        texts, inexact = Texts(len(seqs)), _Inexact()
        if streams[0] == streams[-1] and len(set(streams)) == 1:
            texts.constant(SEG, streams[0])
        else:
            texts.numbers(SEG, pa.array(streams, pa.uint64()))
        rows = pa.array(seqs, pa.uint64())
        texts.numbers(ROW, rows)
        texts.numbers(BLOCK, blocks_of(rows))
        texts.numbers(TS, pa.array(times, pa.int64()))
        self._zones.note(streams, seqs, table)
        has: list[tuple[str, Column]] = []
        for columns in self._layout.columns:
            column = table.column(columns.field)
            self._facts[columns.field.name].note(column)
            _put(texts, columns, column, inexact)
            if not columns.fast:
                has.append((columns.column, column))
        if has:
            _put_marks(texts, has)
        if inexact:
            texts.values(INEXACT, [inexact.get(at) for at in range(len(seqs))])
            for found in inexact.values():
                for name in found:
                    self._facts[self._name_of(name)].inexact += 1
        self._feed(texts.joined(), texts.long)

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
            zones=self._zones.zones(),
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
                index = tantivy.Index(self._schema, str(self._folder))
            self._writer = index.writer(HEAP_BYTES, 1)  # one thread: documents stay in order
        return self._writer

    def _feed(self, texts: Sequence[str], long: Collection[int]) -> None:
        """Of those that are `long`, each number as it is: that takes twice as long."""
        writer = self._open()
        for at, text in enumerate(texts):
            try:
                if at in long:
                    writer.add_document(tantivy.Document.from_dict(orjson.loads(text), self._schema))
                else:
                    writer.add_json(text)
            except (ValueError, TypeError, OverflowError):
                # Nothing is known that would do it; but an entry that is not there would be lost silently.
                self._feed_bare(text)
        self._docs += len(texts)

    def _feed_bare(self, text: str) -> None:
        """Which entry it is, and that nothing is known of it."""
        document = orjson.loads(text)
        for facts in self._facts.values():
            facts.inexact += 1
        bare = {name: document[name] for name in (SEG, ROW, BLOCK, TS)}
        bare[INEXACT] = [each.column for each in self._layout.columns]
        self._open().add_json(orjson.dumps(bare).decode())


class _Facts:
    """What the documents have in one field."""

    def __init__(self, columns: ColumnsOf) -> None:
        self._columns = columns
        self._rows = 0
        self._docs = 0
        self._several = False
        self.inexact = 0
        self._bounds: tuple[Any, Any] | None = None

    def note(self, column: Column) -> None:
        self._rows += len(column)
        self._docs += column.present()
        self._several = self._several or bool(column.many)
        if self._columns.field.kind in BOUNDED:
            found = bounds(column, self._columns.field.kind, 0, len(column))
            if found is not None:
                self._bounds = wider(self._bounds, found)

    def facts(self) -> FieldFacts:
        return FieldFacts(
            name=self._columns.field.name,
            column=self._columns.column,
            docs=self._docs,
            inexact=self.inexact,
            least=None if self._bounds is None else repr(self._bounds[0]),
            most=None if self._bounds is None else repr(self._bounds[1]),
            full=self._docs == self._rows and not self.inexact,
            single=not self._several and not self.inexact,
        )


def _put(texts: Texts, columns: ColumnsOf, column: Column, inexact: _Inexact) -> None:
    """The Tantivy columns of a field."""
    kind, name = columns.field.kind, columns.column
    array = column.array(kind)
    if kind in _WORDED:
        if kind is Kind.TEXT:
            for at in column.many:  # a clause wants all its words in one value
                _note(inexact, at, name)
        if array is not None and _longest(array) <= _BYTES_SURE:
            spelled = array if kind is Kind.KEYWORD else _spaced(array)
            texts.strings(name, spelled)
        else:
            texts.values(name, _fitting(name, column, inexact, kind))
        return
    if array is not None:
        texts.numbers(name, array)
        if columns.ms is not None:
            texts.numbers(columns.ms, milliseconds(array))
        return
    if kind is Kind.FLOAT:
        texts.fractions(name, _each(column, None))
        return
    texts.values(name, _clamped(name, column, inexact) if kind in _WHOLE else _each(column, None))
    if columns.ms is not None:
        texts.values(columns.ms, _each(column, lambda ns: ns // MS_NS))


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


def _fitting(name: str, column: Column, inexact: _Inexact, kind: Kind) -> list[Any]:
    """Keywords, or the words of each text, joined by spaces as Tantivy splits them there again."""
    found: list[Any] = []
    for at in range(len(column)):
        kept = list[str]()
        for value in column.of(at):
            terms = words(str(value)) if kind is Kind.TEXT else [str(value)]
            fitting = list(filter(_fits, terms))
            if len(fitting) < len(terms):
                _note(inexact, at, name)
            if fitting or kind is Kind.TEXT:
                kept.append(" ".join(fitting))
        found.append(kept or None)
    return found


def _note(inexact: _Inexact, at: int, name: str) -> None:
    names = inexact.setdefault(at, [])
    if name not in names:
        names.append(name)


def _known(column: Column) -> list[Any]:
    return [value for value in column.flat() if value is not None]


def _longest(array: Any) -> int:
    return int(pc.max(pc.binary_length(array)).as_py() or 0)


def _spaced(array: Any) -> Any:
    """Texts with white space between their words: of what is ASCII, at the speed of C."""
    found = translated(array, _LOWER_WORDS)
    if found is None:
        texts = [None if text is None else " ".join(words(text)) for text in array.to_pylist()]
        found = pa.array(texts, pa.string())
    return found


def _fits(term: str) -> bool:
    try:
        return len(term.encode()) <= TERM_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _put_marks(texts: Texts, has: Sequence[tuple[str, Column]]) -> None:
    """The column `has`: mostly one text for all documents."""
    marks = [_mark(name, column) for name, column in has]
    if all(isinstance(mark, str) for mark in marks):
        whole = "".join(marks)
        texts.constant(HAS, whole and f"{whole},")
        return
    joined = pc.binary_join_element_wise(*(pa.scalar(m) if isinstance(m, str) else m for m in marks), "")
    texts.strings(HAS, pc.if_else(pc.equal(joined, ""), "", pc.binary_join_element_wise(joined, pa.scalar(","), "")))


def _mark(name: str, column: Column) -> Any:
    """What stands for a field in `has`: one text, or a column of it and of nothing."""
    present = column.present()
    if present in {0, len(column)}:
        return f",{name}" if present else ""
    return pc.if_else(column.known(), f",{name}", "")
