"""Entries as index builders see them: decoded once, promoted once, and read once a field.

Owns     the reading of entries for all families.
Pulls    payloads of neighbouring entries of streams that mean the same.
Hands on, from this package:

    Subject(meaning)                    a meaning of a claim, made ready
    subject.documents(seqs, payloads)   Documents: as the current version has them, parsed if Arrow cannot read them
    Table(documents, fields, version)   a column of canonical values a field: what `search.language.values` says of each
                                        record, read many records at a time
Keeps    a column is what the evaluator would have read; tests/indexers/test_records.py compares them. What is no JSON
         object, or cannot be promoted, has no values and is counted; no payload raises.
Dies     holds no state.
"""

from indexers.records.columns import Column, Table, milliseconds
from indexers.records.documents import Documents, Subject, parsed

__all__ = ["Column", "Documents", "Subject", "Table", "milliseconds", "parsed"]
