"""Tools that tests of this node, and of programs built on it, use: a fake clock and named crash points."""
