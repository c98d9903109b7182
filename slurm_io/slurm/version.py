"""Which Slurm answers: version of a command and of slurmctld, and what JSON it prints.

``scontrol --version`` says "slurm-wlm 22.05.8" on Debian, "slurm 24.11.5" elsewhere. JSON of
scontrol exists from 23.02, a chosen schema (``--json=v0.0.NN``) from 23.11. Without a choice the
newest schema is printed, so that each upgrade changes every field: one is chosen that several
releases share. In JSON's ``meta`` the version's parts are numbers or texts, in any order, below
"Slurm" or "slurm"; the schema is below "plugin" or "plugins", with and without its prefix.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.records import dataclass

Version = tuple[int, int, int]
_TEXT = re.compile(r"(?<![0-9.])([0-9]{2})\.([0-9]{1,2})(?:\.([0-9]{1,3}))?")
_SCHEMA = re.compile(r"v0\.0\.[0-9]{1,3}")
_NUMBER = re.compile(r"[0-9]{1,3}")
# (first release, schema): "" = JSON of one schema only, which is not named.
_SCHEMAS: tuple[tuple[Version, str | None], ...] = (
    ((26, 11, 0), "v0.0.45"),
    ((24, 11, 0), "v0.0.42"),
    ((23, 11, 0), "v0.0.40"),
    ((23, 2, 0), ""),
    ((0, 0, 0), None),
)
ATOMIC_NODES: Version = (23, 2, 4)
"""From here on ``Nodes=+a,-b`` changes a reservation in one step (23.02.0 to .3 misread it)."""


@dataclass(frozen=True)
class Meta:
    """What an answer in JSON says about itself. It is usable where it names no error."""

    version: Version | None
    schema: str | None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether the answer can be taken: warnings do not count."""
        return not self.errors


def parse_version(text: str) -> Version:
    """The first version in a text. Raises SlurmError when there is none."""
    found = _TEXT.search(text)
    if found is None:
        raise SlurmError(f"{text.strip()[:60]!a} names no version of Slurm")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def schema_for(version: Version) -> str | None:
    """The schema to ask scontrol for; "" = ``--json`` without one; None = it prints no JSON."""
    return next(schema for first, schema in _SCHEMAS if version >= first)


def parse_json(text: str) -> dict[str, Any]:
    """The object that a command printed with ``--json``. Raises SlurmError."""
    try:
        answer = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise SlurmError(f"not the JSON that was asked for: {text.strip()[:80]!a}") from error
    if not isinstance(answer, dict):
        raise SlurmError(f"not the JSON that was asked for: {text.strip()[:80]!a}")
    return answer


def meta_of(answer: Mapping[str, Any]) -> Meta:
    """Version, schema, errors and warnings of an answer; each None or () where it is not said."""
    meta = _object(answer.get("meta"))
    slurm = _object(meta.get("slurm")) or _object(meta.get("Slurm"))
    return Meta(
        version=_version(slurm),
        schema=_schema(meta),
        errors=_told(answer.get("errors")),
        warnings=_told(answer.get("warnings")),
    )


def records_in(answer: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The list of objects below `key`. Raises SlurmError when it is anything else."""
    found = answer.get(key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise SlurmError(f"JSON without a list of {key}")
    return found


def _version(slurm: Mapping[str, Any]) -> Version | None:
    parts = _object(slurm.get("version"))
    numbers = [str(parts.get(name, "")) for name in ("major", "minor", "micro")]
    if all(_NUMBER.fullmatch(each) for each in numbers):
        major, minor, micro = map(int, numbers)
        return major, minor, micro
    try:
        return parse_version(str(slurm.get("release", "")))
    except SlurmError:
        return None


def _schema(meta: Mapping[str, Any]) -> str | None:
    plugin = {**_object(meta.get("plugins")), **_object(meta.get("plugin"))}
    for name in ("data_parser", "type"):
        found = _SCHEMA.search(str(plugin.get(name, "")))
        if found:
            return found[0]
    return None


def _told(entries: Any) -> tuple[str, ...]:
    if not entries:
        return ()
    if not isinstance(entries, list):
        entries = [entries]
    return tuple(_description(each) for each in entries)


def _description(entry: Any) -> str:
    if not isinstance(entry, dict):
        return str(entry)
    told = [str(entry[name]) for name in ("description", "error", "message") if entry.get(name)]
    return ": ".join(told) or str(entry)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number")
