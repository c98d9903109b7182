"""What callers give to a change, checked before Slurm sees it.

``scontrol update NodeName=ALL State=DOWN`` ends every job of a cluster, and so does a list where
one name was meant; a line break or a NUL in a text changes what is read back. Raises SlurmRefused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurm_io.errors import SlurmRefused
from slurm_io.slurm.hostlist import is_name
from slurm_io.slurm.reservations import is_reservation_name

LONGEST_TEXT = 1024
LONGEST_SCRIPT = 4 * 1024 * 1024  # as Slurm has it
_JOB = re.compile(r"[1-9][0-9]{0,9}(?:[_+][0-9]{1,9})?", re.ASCII)


def node_name(text: str) -> str:
    """One node's name."""
    if not is_name(text):
        raise SlurmRefused(f"{text[:60]!a} is not one node's name (no list, not ALL)")
    return text


def node_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Some nodes' names, each once."""
    names = tuple(map(node_name, texts))
    if len(set(names)) != len(names):
        raise SlurmRefused(f"a node named twice among {', '.join(names)[:80]}")
    return names


def job_id(text: str) -> str:
    """A job's number, array task (12_3) or component (12+1)."""
    if not _JOB.fullmatch(text):
        raise SlurmRefused(f"{text[:40]!a} is no job id: give 123, 123_4 or 123+1")
    return text


def reservation_name(text: str) -> str:
    """A reservation's name."""
    if not is_reservation_name(text):
        raise SlurmRefused(f"{text[:60]!a} is no reservation's name")
    return text


def user_names(texts: tuple[str, ...], what: str) -> str:
    """Names with commas between them."""
    for each in texts:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}", each, re.ASCII):
            raise SlurmRefused(f"{each[:40]!a} is no {what}")
    return ",".join(texts)


def feature_names(texts: Sequence[str]) -> str:
    """Features with commas between them; none holds what ``--constraint`` reads as a sign."""
    for each in texts:
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:/=-]{0,127}", each, re.ASCII):
            raise SlurmRefused(f"{each[:40]!a} is no feature's name")
    if len(set(texts)) != len(texts):
        raise SlurmRefused(f"a feature named twice among {', '.join(texts)[:80]}")
    return ",".join(texts)


def plain_name(text: str, what: str) -> str:
    """A partition's, QOS's, account's or job's name."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,127}", text, re.ASCII):
        raise SlurmRefused(f"{text[:40]!a} is no {what}")
    return text


def absolute_path(text: str, what: str) -> str:
    """An absolute path of one printable line."""
    if not text.startswith("/") or len(text) > LONGEST_TEXT or not text.isprintable():
        raise SlurmRefused(f"{what}: an absolute path, not {text[:60]!a}")
    return text


def script(text: str) -> str:
    """A batch script."""
    if not text.startswith("#!") or "\0" in text or len(text) > LONGEST_SCRIPT:
        raise SlurmRefused("a batch script is text and begins with #! and its interpreter")
    return text


def line(text: str, what: str) -> str:
    """A text of one printable line and bounded length."""
    if len(text) > LONGEST_TEXT or not text.isprintable():
        raise SlurmRefused(f"{what}: one printable line of at most {LONGEST_TEXT} characters")
    return text


def reason(text: str) -> str:
    """Why a node goes out: Slurm itself refuses an empty one."""
    if not text.strip():
        raise SlurmRefused("a node goes out of service with a reason: give one")
    return line(text, "reason")
