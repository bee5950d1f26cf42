"""The file of a sealed object: entries of one stream or of many, as Parquet that anybody can read.

Owns     columns and metadata (`format`), the directory of a pack (`directory`), the `writer` and the `reader`.
Pulls    nothing: batches of columns come in, row indexes are asked for.
Hands on `Written` (what is known of a new file), and entries as bytes.
Keeps    entries are sorted by (stream, seq), and those of one stream follow each other without a gap: an entry's row is
         the stream's first row plus the distance in seq. A file that is not one of ours, newer than this version, or
         damaged is `ObjectDamaged`, never other entries. Page checksums are written, and verified by every read.
         No file is synced: it is on its way to a store that does so with its own copy, and whoever brings it there
         compares the checksum. A flush of many streams would sync the disk, under the commits of appends, for each.
Dies     while writing: a file that nothing names, in a folder that is emptied at start.

    from streams_node.segments.writer import ObjectWriter           # loads pyarrow, as does `reader`: import it late
    with ObjectWriter(folder, made, kind="pack", level=0) as writer:     # kind="segment": one stream only
        writer.write(batch)                                              # a RecordBatch of `format.SCHEMA`, any size
        written = writer.finish()                                        # left without it: no file

    from streams_node.segments.reader import SealedFile, read_page
    with SealedFile(path, made) as file:                            # maps the file, reads the footer
        found = Directory.unpack(file.directory(), made).find(stream)        # (first_seq, count, first_row) | None
        page = read_page(file.group, file.footer, row, end_row, bytes_max, is_json=True)   # (end_row, bytes)
        file.columns(group, ("seq", "append_ts", "key"))            # whole columns of a row group, only when asked

`file.group(n)` decodes the payloads of one row group (`Group`, whose `size` a cache may count); hand a caching function
to `read_page` in its place. `SealedFile(path, made, footer=…)` saves the reading of a footer that was kept.
"""
