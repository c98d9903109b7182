"""One site rule: what its TOML file must hold, read and checked whole before it is used."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from dataclasses import dataclass
from typing import Any, Literal, cast

from slurm_io.analysis.rules.base import Severity
from slurm_io.analysis.site_rules.grammar import parse
from slurm_io.analysis.site_rules.names import nearest
from slurm_io.analysis.site_rules.tree import ExpressionError, Node
from slurm_io.analysis.site_rules.units import unit_of
from slurm_io.errors import ConfigError

MAX_BYTES = 64 << 10
_CODE = re.compile(r"S(0[1-9]|[1-9][0-9])")
_MOST_TEXT = 300
_MOST_UNIT = 20
_MOST_COMMANDS = 8
_NEEDED = ("code", "title", "expression", "threshold", "remedy")
_KNOWN = (*_NEEDED, "severity", "fires", "unit", "guard", "commands")
_SEVERITIES = ("info", "warn", "bad")
_SIDES = ("above", "below")


class NotReadError(ConfigError):
    """There is no such file, or it may not be read: nothing is known of the rule."""

    exit_code = 3


@dataclass(frozen=True)
class SiteRule:
    """Fires where `expression` is at or above (`fires` = below: at or below) `threshold` and
    `guard`, if there is one, is true. `source`: the file it came from."""

    code: str
    title: str
    expression: Node
    threshold: float
    remedy: str
    severity: Severity
    fires: Literal["above", "below"]
    guard: Node | None
    commands: tuple[str, ...]
    source: str
    text: str


def read_rule(path: str) -> SiteRule:
    """The rule in the file at `path`.

    Raises:
        ConfigError: it cannot be read, or is no site rule: names the file, the key and the fix.
    """
    try:
        content = _bytes_of(path)
    except OSError as error:
        raise NotReadError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_BYTES >> 10} KiB: is it a rule?")
    try:
        text = content.decode("utf-8")
        return parse_rule(tomllib.loads(text), path)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None
    except ValueError:
        raise ConfigError(f"{path}: not valid TOML: a number has too many digits") from None
    except RecursionError:
        raise ConfigError(f"{path}: not valid TOML: nested too deep") from None


def parse_rule(data: dict[str, Any], source: str) -> SiteRule:
    """The rule of a parsed file; `source` heads the errors. Raises ConfigError."""
    for key in data:
        if key not in _KNOWN:
            near = nearest(key, [*_KNOWN]) or f"; known keys: {', '.join(_KNOWN)}"
            raise ConfigError(f"{source}: unknown key {key!a}{near}")
    for key in _NEEDED:
        if key not in data:
            raise ConfigError(f"{source}: {key} is missing")
    code = _text(data, "code", source)
    if not _CODE.fullmatch(code):
        raise ConfigError(f"{source}: code must be S01 to S99, not {code!a}")
    expression = _parsed(data, "expression", source, "number")
    _check_unit(data, expression, source)
    return SiteRule(
        code=code,
        title=_text(data, "title", source),
        expression=expression,
        threshold=_number(data, source),
        remedy=_text(data, "remedy", source),
        severity=cast(Severity, _word(data, "severity", _SEVERITIES, "warn", source)),
        fires=cast(Literal["above", "below"], _word(data, "fires", _SIDES, "above", source)),
        guard=_parsed(data, "guard", source, "truth") if "guard" in data else None,
        commands=_commands(data, source),
        source=source,
        text=str(data["expression"]).strip(),
    )


def _bytes_of(path: str) -> bytes:
    """A pipe or a device is no rule, and must not hold up a report."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return os.read(descriptor, MAX_BYTES + 1)
    finally:
        os.close(descriptor)


def _text(data: dict[str, Any], key: str, source: str) -> str:
    value = data[key]
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ConfigError(f"{source}: {key} must be one line of printable text in quotes")
    if len(value) > _MOST_TEXT:
        raise ConfigError(f"{source}: {key} is longer than {_MOST_TEXT} characters")
    return value.strip()


def _parsed(
    data: dict[str, Any], key: str, source: str, wanted: Literal["number", "truth"]
) -> Node:
    value = data[key]
    if not isinstance(value, str):
        raise ConfigError(f"{source}: {key} must be an expression in quotes")
    try:
        return parse(value, wanted)
    except ExpressionError as error:
        raise ConfigError(f"{source}: {key}: {error}") from None


def _number(data: dict[str, Any], source: str) -> float:
    value = data["threshold"]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= 1e18:
        raise ConfigError(f"{source}: threshold must be a number between -1e18 and 1e18")
    return float(value)


def _check_unit(data: dict[str, Any], expression: Node, source: str) -> None:
    if "unit" not in data:
        return
    told = data["unit"]
    if not isinstance(told, str) or len(told) > _MOST_UNIT:
        raise ConfigError(f'{source}: unit must be a unit in quotes, such as "ms"')
    if expression.unit.powers != unit_of(told).powers:
        raise ConfigError(
            f"{source}: the expression is in {expression.unit}, unit says {told!a}: change the "
            "threshold to that unit, or write base_unit(...) around the expression"
        )


def _word(data: dict[str, Any], key: str, words: tuple[str, ...], default: str, source: str) -> str:
    value = data.get(key, default)
    if value not in words:
        raise ConfigError(f"{source}: {key} must be one of {', '.join(words)}, not {value!a:.40}")
    return str(value)


def _commands(data: dict[str, Any], source: str) -> tuple[str, ...]:
    value = data.get("commands", [])
    lines = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not lines or not all(one.isprintable() and 0 < len(one) <= _MOST_TEXT for one in value):
        raise ConfigError(f"{source}: commands must be a list of single lines")
    if len(value) > _MOST_COMMANDS:
        raise ConfigError(f"{source}: at most {_MOST_COMMANDS} commands")
    return tuple(value)
