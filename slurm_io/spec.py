"""What one job asks for: ``--comment "slurm-io: profile=light silence=F03,F10"``.

Grammar: the word ``slurm-io:``, then ``key=value`` separated by spaces; values percent-encoded
(``ckpt=/scratch/my%20runs``). Sources, later wins: defaults of the partition < comment <
``--extra`` < SPANK option < ``slurm-io run`` options.

The text comes from any user and is read by root: one strict function, bounded lengths, printable
characters only, and SpecError (one line, safe to print) as the only way to fail.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slurm_io.errors import SpecError
from slurm_io.records import dataclass, fields

MARKER = "slurm-io:"
REQUEST_MAX_CHARS = 2048
VALUE_MAX_CHARS = 1024
ECHO_MAX_CHARS = 40

_MARKER_AT = re.compile(r"(?:^|\s)slurm-io:")
_KEY = re.compile(r"[a-z_]{1,32}")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")  # not urllib.parse: 5 ms of every prolog
_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}(?:@[A-Za-z0-9][A-Za-z0-9:_-]{3,127})?")
_PRICE = re.compile(r"[0-9]{1,5}(?:\.[0-9]{1,4})?")
_RULES = re.compile(r"[A-Z][0-9]{2}(?:,[A-Z][0-9]{2}){0,63}")


@dataclass(frozen=True)
class JobSpec:
    """One source's wishes; None means that this source does not say.

    `price_usd_h` is dollars per GPU hour. `dataset` is a name the site defines, perhaps with
    ``@content-id``, or (where the site allows it) an absolute path.
    """

    dataset: str | None = None
    ckpt: str | None = None
    tier: str | None = None
    profile: str | None = None
    price_usd_h: float | None = None
    silence: tuple[str, ...] | None = None
    check: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it, without what was not asked for."""
        pairs = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in pairs if value is not None}


def parse_request(text: str, allow_paths: bool = False) -> JobSpec | None:
    """The request in a comment, or None when it holds none.

    Text before the marker belongs to somebody else; everything behind it is ours. Raises SpecError
    with a line for the user, and nothing else whatever the text.
    """
    found = _MARKER_AT.search(text)
    if found is None:
        return None
    return parse_words(text[found.end() :], allow_paths)


def parse_words(text: str, allow_paths: bool = False) -> JobSpec:
    """The request without its marker, as SPANK and ``--extra`` carry it. Raises SpecError."""
    if len(text) > REQUEST_MAX_CHARS:
        raise SpecError(f"{MARKER} the request is longer than {REQUEST_MAX_CHARS} characters")
    pairs: dict[str, str] = {}
    for word in text.split(" "):
        if not word:
            continue
        key, separator, value = word.partition("=")
        if not separator:
            raise SpecError(f"{MARKER} {_echo(word)} is not of the form key=value")
        if key in pairs:
            raise SpecError(f"{MARKER} {_echo(key)} is given twice")
        pairs[key] = _decoded(key, value)
    return spec_from_pairs(pairs, allow_paths)


def spec_from_pairs(pairs: Mapping[str, str], allow_paths: bool = False) -> JobSpec:
    """Check decoded key -> value pairs. Raises SpecError naming the key and the accepted form."""
    values: dict[str, Any] = {}
    for key, value in pairs.items():
        if not _KEY.fullmatch(key) or key not in _READERS:
            raise SpecError(f"{MARKER} unknown key {_echo(key)}; known: {', '.join(_READERS)}")
        if len(value) > VALUE_MAX_CHARS or not value.isprintable():
            raise SpecError(
                f"{MARKER} {key} must be at most {VALUE_MAX_CHARS} printable characters"
            )
        name, read, form = _READERS[key]
        try:
            values[name] = read(value)
        except ValueError:
            raise SpecError(f"{MARKER} {key} must be {form}, not {_echo(value)}") from None
    if not allow_paths and str(values.get("dataset", "")).startswith("/"):
        raise SpecError(f"{MARKER} dataset must be a name here: this site accepts no paths")
    return JobSpec(**values)


def merge(layers: Iterable[JobSpec]) -> JobSpec:
    """One spec out of several, weakest first: each key from the last layer that says something."""
    values: dict[str, Any] = {}
    for layer in layers:
        values.update(layer.to_dict())
    return JobSpec(**values)


def _decoded(key: str, value: str) -> str:
    if _BARE_PERCENT.search(value):
        raise SpecError(f"{MARKER} {_echo(key)}: a bare % must be written %25")
    try:
        return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), value.encode()).decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        raise SpecError(f"{MARKER} {_echo(key)}: the value is not UTF-8") from None


def _echo(text: str) -> str:
    """The user's text, safe on a terminal and in a log: ASCII, quoted, cut."""
    cut = text if len(text) <= ECHO_MAX_CHARS else text[:ECHO_MAX_CHARS] + "..."
    return ascii(cut)


def _matching(pattern: re.Pattern[str]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(value)
        return value

    return read


def _one_of(*words: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in words:
            raise ValueError(value)
        return value

    return read


def _path(value: str) -> str:
    parts = value.split("/")
    if not value.startswith("/") or "." in parts or ".." in parts:
        raise ValueError(value)
    return value


def _dataset(value: str) -> str:
    return _path(value) if value.startswith("/") else _matching(_DATASET)(value)


def _price(value: str) -> float:
    return float(_matching(_PRICE)(value))


def _silence(value: str) -> tuple[str, ...]:
    return tuple(_matching(_RULES)(value).split(","))


_READERS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "dataset": ("dataset", _dataset, "NAME, NAME@content-id or an absolute path"),
    "ckpt": ("ckpt", _path, "an absolute path without . or .."),
    "tier": ("tier", _one_of("local", "shared"), "local or shared"),
    "profile": ("profile", _one_of("off", "light", "full"), "off, light or full"),
    "price": ("price_usd_h", _price, "dollars per GPU hour, e.g. 2.50"),
    "silence": ("silence", _silence, "rule codes such as F03,F10"),
    "check": ("check", _one_of("warn", "hold", "off"), "warn, hold or off"),
}
