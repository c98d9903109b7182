"""The incidents of this folder: what a file must hold, and all of them read.

A file's name is the incident's id. Every key must be there and no other may be. ``fstypes``: file
system types (as in /proc/self/mountinfo) without which a finding is not like it; empty = any.
``[rules]``: code of a rule = signs of which a finding must show one; an empty list = any finding
of that rule. A sign is a metric of the finding's evidence that reaches its threshold (``"metric"``)
or a value given here (``"metric >= 0.2"``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from slurm_io.errors import RegistryError

COMPONENTS = (
    "file system", "data loader", "checkpoint", "staging", "training code", "node", "monitoring",
)  # fmt: skip
_CODE = re.compile(r"F(0[1-9]|[1-9]\d)")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_SIGN = re.compile(r"([a-z0-9_]+)(?: >= (\d+(?:\.\d+)?))?")
_TEXTS = ("title", "trigger", "root_cause", "component", "detection", "source")
_LISTS = ("symptoms", "remediation", "lessons")


@dataclass(frozen=True)
class Sign:
    """A metric of a finding's evidence; `least` is None where its own threshold decides."""

    metric: str
    least: float | None = None

    def __str__(self) -> str:
        return self.metric if self.least is None else f"{self.metric} >= {self.least:g}"


@dataclass(frozen=True)
class Incident:
    """One public incident. Remediation is what was done, or follows from the cause."""

    id: str
    title: str
    symptoms: tuple[str, ...]
    trigger: str
    root_cause: str
    component: str
    detection: str
    remediation: tuple[str, ...]
    lessons: tuple[str, ...]
    source: str
    fstypes: tuple[str, ...]
    rules: Mapping[str, tuple[Sign, ...]]

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: _plain(value) for name, value in facts.items()}


@cache
def incidents() -> tuple[Incident, ...]:
    """All incidents, by id.

    Raises:
        RegistryError: a file is not what it must be.
    """
    folder = Path(__file__).parent
    return tuple(
        parse_incident(path.stem, path.read_text("utf-8")) for path in sorted(folder.glob("*.toml"))
    )


def parse_incident(name: str, text: str) -> Incident:
    """One file's text.

    Raises:
        RegistryError: no TOML, a key missing, unknown, empty or of another kind, or a bad name.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"incident {name}: not valid TOML: {error}") from error
    if not _ID.fullmatch(name):
        raise RegistryError(f"incident {name}: a name is lower-case words with hyphens")
    wanted = {each.name for each in fields(Incident)} - {"id"}
    if set(data) != wanted:
        missing, unknown = sorted(wanted - set(data)), sorted(set(data) - wanted)
        raise RegistryError(f"incident {name}: missing keys {missing}, unknown keys {unknown}")
    if data["component"] not in COMPONENTS:
        raise RegistryError(f"incident {name}: component is one of {', '.join(COMPONENTS)}")
    values: dict[str, Any] = {key: _text(name, key, data[key]) for key in _TEXTS}
    values |= {key: _texts(name, key, data[key]) for key in _LISTS}
    values["fstypes"] = _texts(name, "fstypes", data["fstypes"], may_be_empty=True)
    return Incident(id=name, rules=_rules(name, data["rules"]), **values)


def _rules(name: str, table: Any) -> dict[str, tuple[Sign, ...]]:
    if not isinstance(table, dict):
        raise RegistryError(f"incident {name}: write [rules] and below it CODE = [SIGN, ...]")
    bad = [code for code in table if not _CODE.fullmatch(code)]
    if bad:
        raise RegistryError(f"incident {name}: no rule is called {', '.join(bad)}")
    return {
        code: tuple(
            _sign(name, text) for text in _texts(name, f"rules.{code}", signs, may_be_empty=True)
        )
        for code, signs in table.items()
    }


def _sign(name: str, text: str) -> Sign:
    found = _SIGN.fullmatch(text)
    if found is None:
        raise RegistryError(f'incident {name}: a sign is "metric" or "metric >= 0.2", not {text!a}')
    return Sign(found[1], None if found[2] is None else float(found[2]))


def _text(name: str, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RegistryError(f"incident {name}: {key} must be a text that is not empty")
    return " ".join(value.split())


def _texts(name: str, key: str, value: Any, may_be_empty: bool = False) -> tuple[str, ...]:
    if not isinstance(value, list) or not (value or may_be_empty):
        raise RegistryError(f"incident {name}: {key} must be a list of texts")
    return tuple(_text(name, key, each) for each in value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {code: [str(sign) for sign in signs] for code, signs in value.items()}
    return list(value) if isinstance(value, tuple) else value
