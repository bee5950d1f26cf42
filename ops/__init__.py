"""Operations: what builds, checks and measures the tree. Stdlib first; nothing here ships in the wheel."""
