"""Sources as people, configuration and other programs name them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args
from urllib.parse import urlsplit

from slurm_io.errors import UsageError
from slurm_io.staging.stage.model import SourceKind, SourceSpec

SECRET_VARIABLE = "SLURM_IO_STAGE_SECRET"
"""The secret of a peer named on the command line: arguments can be read by everybody."""


def named(words: Sequence[str], known: Mapping[str, Sequence[str]]) -> tuple[SourceSpec, ...]:
    """Sources as given: an absolute path, s3://…, rsync://…, or a kind (``path``, ``s3``) for those
    that the site knows (`known`: kind -> places). Raises UsageError."""
    return tuple(source for word in words for source in _named(word, known))


def preferred(kinds: Sequence[str], known: Mapping[str, Sequence[str]]) -> tuple[SourceSpec, ...]:
    """All known sources of the best kind that has any."""
    for kind in kinds:
        if known.get(kind):
            return tuple(one(place) for place in known[kind])
    return ()


def one(place: str) -> SourceSpec:
    """A source by its place. Raises UsageError."""
    if place.startswith("/"):
        return SourceSpec("path", os.path.normpath(place), place)
    parts = _split(place)
    if parts.scheme == "s3" and parts.netloc:
        return SourceSpec("s3", place, place)
    if parts.scheme == "rsync" and parts.hostname:
        secret = os.environ.get(SECRET_VARIABLE)
        return SourceSpec("peer", place, parts.hostname, secret)
    raise UsageError(
        f"{place!a} is no source: give an absolute path, s3://BUCKET/PREFIX, "
        "rsync://USER@HOST:PORT/MODULE, or path or s3 for what the site has"
    )


def from_json(text: str) -> tuple[SourceSpec, ...]:
    """A list of objects with the fields of SourceSpec. Raises UsageError."""
    try:
        rows = json.loads(text)
        return tuple(_from_row(row) for row in rows)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise UsageError(
            "--sources: no JSON list of objects with kind, where, label, secret, readers_max"
        ) from error


def repair_list(text: str) -> frozenset[str]:
    """Paths of a list as ``dataset verify --repair-list`` writes it. Raises UsageError."""
    paths = set()
    for number, line in enumerate(text.splitlines(), 1):
        try:
            path = json.loads(line)["path"]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f"line {number} of the repair list is no JSON object with a path: give the file "
                "that `dataset verify --repair-list` wrote"
            ) from error
        if not isinstance(path, str):
            raise UsageError(f"line {number} of the repair list: its path is no text")
        paths.add(path)
    return frozenset(paths)


def _named(word: str, known: Mapping[str, Sequence[str]]) -> Iterator[SourceSpec]:
    if word not in get_args(SourceKind):
        yield one(word)
        return
    if word == "peer":
        raise UsageError("--from peer is for --to NODE…: here give rsync://USER@HOST:PORT/MODULE")
    places = known.get(word, ())
    if not places:
        where = "[dataset.NAME] shared" if word == "path" else "the manifest's sources"
        raise UsageError(f"--from {word}: the site names none ({where}): give its place")
    yield from map(one, places)


def _split(place: str) -> Any:
    try:
        parts = urlsplit(place)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError as error:
        raise UsageError(f"{place!a} is no address: {error}") from error
    return parts


def _from_row(row: Mapping[str, Any]) -> SourceSpec:
    known = {each.name for each in fields(SourceSpec)}
    if set(row) - known or row["kind"] not in get_args(SourceKind):
        raise KeyError
    texts = [row["where"], row["label"], row.get("secret") or ""]
    whole = type(row.get("readers_max", 0)) is int
    if not whole or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return SourceSpec(**row)
