"""What an admin says an array must be: ``/raid level=raid0 members=8`` or ``md0 level=raid1``."""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_io.errors import ConfigError

_NAME = re.compile(r"md[\w-]{1,32}")
_LEVELS = ("raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "linear")
_MOST_MEMBERS = 384


class ExpectedArray(NamedTuple):
    """One line of the setting. Exactly one of `mount_point` and `name` is set; "" or None = any."""

    mount_point: str = ""
    name: str = ""
    level: str = ""
    members: int | None = None

    @property
    def subject(self) -> str:
        """What people call it."""
        return self.mount_point or self.name


def parse_expected(line: str, label: str) -> ExpectedArray:
    """One line. Raises ConfigError headed by `label`, which names file and key."""
    words = line.split()
    subject = words[0] if words else ""
    is_path = subject.startswith("/") and ".." not in subject.split("/")
    if not is_path and not _NAME.fullmatch(subject):
        raise ConfigError(f"{label}: {line!a} must begin with a mount point or a name such as md0")
    values: dict[str, str] = {}
    for word in words[1:]:
        key, separator, value = word.partition("=")
        if not separator or key not in ("level", "members") or key in values:
            raise ConfigError(f"{label}: {word!a} of {subject!a}: write level=… and members=… once")
        values[key] = value
    return ExpectedArray(
        mount_point=(subject.rstrip("/") or "/") if is_path else "",
        name="" if is_path else subject,
        level=_level(values.get("level", ""), label),
        members=_members(values.get("members"), label),
    )


def parse_all_expected(lines: tuple[str, ...], label: str) -> tuple[ExpectedArray, ...]:
    """All lines of the setting. Raises ConfigError."""
    return tuple(parse_expected(line, label) for line in lines)


def _level(word: str, label: str) -> str:
    if word and word not in _LEVELS:
        raise ConfigError(f"{label}: level={word!a} is none of {', '.join(_LEVELS)}")
    return word


def _members(word: str | None, label: str) -> int | None:
    if word is None:
        return None
    if not (word.isascii() and word.isdigit() and 0 < int(word[:6]) <= _MOST_MEMBERS):
        raise ConfigError(f"{label}: members={word!a} must be a number from 1 to {_MOST_MEMBERS}")
    return int(word)
