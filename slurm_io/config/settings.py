"""What one key of the configuration is, and how the keys of one section are read and checked.

A section is a frozen dataclass whose fields are made with :func:`_key`: the default and its
:class:`Setting` in one place. Its table in the file becomes an object by :func:`read_section`;
checks read their own keys the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from slurm_io.errors import ConfigError
from slurm_io.records import dataclass, field, fields

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What one key means. `low` and `high` bound a number, `choices` a word, both inclusive."""

    doc: str
    reason: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    is_path: bool = False


def _key(default: Any, setting: Setting) -> Any:
    return field(default=default, metadata={"setting": setting})


def settings_of(kind: type[Any]) -> dict[str, Setting]:
    """Key -> what it means, of one section's dataclass, in order."""
    return {
        each.name: each.metadata["setting"] for each in fields(kind) if "setting" in each.metadata
    }


def default_of(kind: type[Any], key: str) -> Any:
    """The default of one key."""
    return getattr(kind, key, None)


def read_section(kind: type[T], table: Mapping[str, Any], name: str, section: str) -> T:
    """One section's dataclass from its table; `name` is the file. Raises ConfigError."""
    return kind(**checked_values(kind, table, name, section, [*settings_of(kind)]))


def checked_values(
    kind: type[Any], table: Mapping[str, Any], name: str, section: str, known: list[str]
) -> dict[str, Any]:
    """Key -> value in its default's type. `known`: the keys that a mistyped one may have meant.

    Raises ConfigError naming the file `name`, the key and what it must be.
    """
    settings = settings_of(kind)
    values = {}
    for key, value in table.items():
        label = f"{section}.{key}" if section else key
        if key not in settings:
            raise ConfigError(f"{name}: unknown key {label!r}{_nearest(key, known)}")
        try:
            values[key] = _value(value, default_of(kind, key), settings[key])
        except ValueError as error:
            raise ConfigError(f"{name}: {label} {error}, not {value!r}") from None
    return values


def _value(value: Any, default: Any, setting: Setting) -> Any:
    """The value in the default's type; ValueError says what it must be."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError("must be true or false")  # noqa: TRY004
        return value
    if isinstance(default, int | float):
        return _number(value, default, setting)
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError("must be a list of strings")
        return tuple(value)
    return _text(value, default, setting)


def _number(value: Any, default: float, setting: Setting) -> float:
    whole = isinstance(default, int)
    accepted = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, accepted):
        kind = "whole number" if whole else "number"
        raise ValueError(f"must be a {kind} ({setting.unit or 'count'})")  # noqa: TRY004
    low, high = setting.low, setting.high
    if not (low is None or value >= low) or not (high is None or value <= high):  # NaN is out
        bounds = f"at least {low:.12g}" if high is None else f"between {low:.12g} and {high:.12g}"
        raise ValueError(f"must be {bounds} {setting.unit}".rstrip())
    return type(default)(value)


def _text(value: Any, default: str, setting: Setting) -> str:
    if not isinstance(value, str) or (value and not value.isprintable()):
        raise ValueError("must be printable text in quotes")
    if setting.choices and value not in setting.choices:
        raise ValueError(f"must be one of {', '.join(filter(None, setting.choices))}")
    needs_path = setting.is_path and (value or default)
    if needs_path and (not value.startswith("/") or ".." in value.split("/") or value == "/"):
        raise ValueError("must be an absolute path without '..'")
    return value


def _nearest(key: str, known: list[str]) -> str:
    from difflib import get_close_matches  # only when something is wrong: the prolog stays light

    near = get_close_matches(key, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(sorted(known))}"
