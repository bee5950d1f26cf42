"""Bounds of one query. The original has none; each one keeps a hostile query from costing what no honest one does."""

QUERY_CHARS_MAX = 16_384
CLAUSES_MAX = 512
DEPTH_MAX = 64  # parentheses and negations around one clause: recursion stays far below the interpreter's limit
WORDS_MAX = 256  # of one text clause
NUMBER_CHARS_MAX = 1024  # a longer text is no number; a double needs at most 770 significant digits
DATE_CHARS_MAX = 100
