"""Single numbers out of the kernel's "label number" texts without splitting the whole text.

meminfo, vmstat, memory.stat and cpu.stat hold 20 to 150 lines of which a collector wants a few;
one search per wanted line is several times cheaper than a dictionary of all.
"""

from __future__ import annotations


def number_after(text: bytes, label: bytes) -> int | None:
    """The whole number that follows `label` at the start of a line; None when there is none.

    `label` carries its separator, e.g. ``b"Dirty:"`` or ``b"anon "``, so that ``anon`` does not
    match ``anon_thp``.
    """
    start = 0 if text.startswith(label) else text.find(b"\n" + label) + 1
    if start == 0 and not text.startswith(label):
        return None
    return first_number(text[start + len(label) : start + len(label) + 40])


def first_number(text: bytes) -> int | None:
    """The number a text begins with (white space before it allowed); None when it is no number."""
    words = text.split(None, 1)
    return int(words[0]) if words and words[0].isdigit() else None


def pressure_total_us(text: bytes, kind: bytes) -> int | None:
    """`total` of the ``some`` or ``full`` line of a PSI file, microseconds; None when absent."""
    start = 0 if text.startswith(kind + b" ") else text.find(b"\n" + kind + b" ") + 1
    if start == 0 and not text.startswith(kind + b" "):
        return None
    end = text.find(b"\n", start)
    line = text[start:] if end < 0 else text[start:end]
    position = line.find(b" total=")
    return first_number(line[position + 7 :]) if position >= 0 else None
