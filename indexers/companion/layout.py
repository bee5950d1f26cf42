"""The columns of a companion's Tantivy index.

seg       u64, indexed    the stream's incarnation
row       u64             the entry's sequence
block     u64, indexed    that without its last bits: of a large segment, entries near to each other are found by it
ts        i64             when it was appended, in microseconds
inexact   text, raw       the columns of this document that do not hold what the record holds
has       text, raw       which of the fields without a fast column have a value in this record: `,f1,f7,`, or nothing;
                          one term a document, as each costs as much as a keyword
f0, f1…   the declared fields, in the order of their names:
          keyword         text, raw; fast where the field is sorted or grouped by
          text            text, split at white space: what is indexed is the words of the analyser, joined by spaces;
                          with positions where the field has them
          integer         i64
          float           f64
          date            i64, nanoseconds; and m0, m1…: i64, milliseconds, rounded down, for histograms, as doubles
                          hold them exactly
          bool            bool, indexed

Numbers are fast columns and not indexed: equality is a range of one value. All may have several values.
"""

from collections.abc import Mapping
from typing import NamedTuple

import tantivy

from streams_node.schema.search_config import Field, Kind

SEG, ROW, BLOCK, TS, INEXACT, HAS = "seg", "row", "block", "ts", "inexact", "has"
TERM_BYTES_MAX = 65_530  # Tantivy drops longer ones


class ColumnsOf(NamedTuple):
    """The columns of a field."""

    field: Field
    column: str
    fast: bool  # else `has` says who has a value
    ms: str | None = None  # of a date


class Layout:
    """The columns of every field."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.columns: tuple[ColumnsOf, ...] = tuple(
            _columns(number, fields[name]) for number, name in enumerate(sorted(fields))
        )
        self._by_name = {each.field.name: each for each in self.columns}

    def of(self, name: str) -> ColumnsOf:
        return self._by_name[name]

    def has_query(self, schema: tantivy.Schema, name: str) -> tantivy.Query:
        """Documents whose record has a value in a field; those that are `inexact` there may have one, too."""
        columns = self.of(name)
        if columns.fast:
            return tantivy.Query.exists_query(columns.column)
        return tantivy.Query.regex_query(schema, HAS, f".*,{columns.column},.*")

    def schema(self) -> tantivy.Schema:
        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field(SEG, indexed=True, fast=True)
        builder.add_unsigned_field(ROW, fast=True)
        builder.add_unsigned_field(BLOCK, indexed=True)
        builder.add_integer_field(TS, fast=True)
        for name in (INEXACT, HAS):
            builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
        for each in self.columns:
            _add(builder, each)
        return builder.build()


def _columns(number: int, field: Field) -> ColumnsOf:
    fast = field.kind is not Kind.TEXT
    if field.kind is Kind.KEYWORD:
        fast = field.sortable or field.aggregatable or field.column
    return ColumnsOf(field, f"f{number}", fast, f"m{number}" if field.kind is Kind.DATE else None)


def _add(builder: tantivy.SchemaBuilder, columns: ColumnsOf) -> None:
    field, name = columns.field, columns.column
    if field.kind is Kind.KEYWORD:
        builder.add_text_field(name, fast=columns.fast, tokenizer_name="raw", index_option="basic")
    elif field.kind is Kind.TEXT:
        option = "position" if field.positions else "freq"
        builder.add_text_field(name, tokenizer_name="whitespace", index_option=option)
    elif field.kind is Kind.FLOAT:
        builder.add_float_field(name, fast=True)
    elif field.kind is Kind.BOOL:
        builder.add_boolean_field(name, indexed=True, fast=True)
    else:
        builder.add_integer_field(name, fast=True)
    if columns.ms is not None:
        builder.add_integer_field(columns.ms, fast=True)
