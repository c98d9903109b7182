"""What names of checkpoint files and folders tell: the step, and what belongs together."""

from __future__ import annotations

import re

_STEPS = tuple(
    re.compile(rf"(?:^|[^a-z])(?:{word})[-_=]?0*(\d{{1,12}})(?![\da-z])")
    for word in ("(?:global_?)?steps?", "iter(?:ation)?", "checkpoint|ckpt", "ba|batch", "epoch|ep")
)
_DIGITS = re.compile(r"0*(\d{1,12})")
_LAST_DIGITS = re.compile(r"\D*[-_.]0*(\d{1,12})")
_PART_WORDS = re.compile(r"rank|shard|part|of|tp|pp|node")
_PART_FOLDER = re.compile(r"(?:mp_|dp_)?rank_?\d+(?:_\d+)*")
_TEMPORARY = re.compile(r"[._-]?(?:tmp|temp|partial|incomplete)[._-]?", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_MOST_CHARS = 1024


def step_of(name: str, is_file: bool = False) -> int | None:
    """Step, iteration or epoch that a name tells; None where it tells none."""
    stem = name.lower()
    if is_file:
        stem = stem.rpartition(".")[0] or stem
    for pattern in _STEPS:
        found = pattern.search(stem)
        if found:
            return int(found[1])
    if _DIGITS.fullmatch(stem):
        return int(stem)
    last = _LAST_DIGITS.fullmatch(stem)
    return int(last[1]) if is_file and last and not _PART_WORDS.search(stem) else None


def is_part_folder(name: str) -> bool:
    """Whether a folder of that name is one save, or a part of one, and not where saves lie."""
    return step_of(name) is not None or bool(_PART_FOLDER.fullmatch(name.lower()))


def plain(name: str) -> str:
    """The name without what marks it as temporary: a save is often renamed when it is done."""
    return _TEMPORARY.sub("", name) or name


def shape(name: str) -> str:
    """Equal for the saves of one series: numbers do not count."""
    return _NUMBER.sub("#", plain(name))


def shown(path: bytes | str) -> str:
    """A path fit for reports and terminals: printable, escaped where it is not, not endless."""
    raw = path if isinstance(path, bytes) else path.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return text if len(text) <= _MOST_CHARS else "…" + text[-_MOST_CHARS:]
