"""Which GPUs are a job's, in the words of Slurm and CUDA: ``0,2-3``, ``GPU-…``, ``MIG-…``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from slurm_io.errors import SlurmError

ALL = "all"
_MOST_WORDS = 1024
_LONGEST_TEXT = 65536
_NUMBERS = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Fa-f][0-9A-Fa-f-]{3,63}")
_OLD_MIG = re.compile(r"MIG-GPU-[0-9A-Fa-f-]{8,64}/[0-9]{1,3}/[0-9]{1,3}")
_NONE = frozenset({"", "-1", "none", "void", "nodevfiles"})
_BY_NUMBER = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")
_USERS_OWN = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def gpus_of_user(environment: Mapping[str, str]) -> str:
    """``NAME=value`` of what a user's own environment says, which may be one task's of many; "all"
    where it says nothing, or names MIG instances, of which other tasks have others."""
    if any("MIG-" in environment.get(name, "") for name in _USERS_OWN):
        return ALL
    found = _first_of(environment, _BY_NUMBER) or _first_of(environment, _USERS_OWN)
    return found or ALL


def parse_words(text: str) -> tuple[str, ...]:
    """Numbers and UUIDs of ``0,2-3`` or ``GPU-…,MIG-…``; () when it names none.

    Raises SlurmError for anything else.
    """
    if len(text) > _LONGEST_TEXT:
        raise SlurmError(f"a list of GPUs of {len(text)} characters is none")
    if text.strip().lower() in _NONE:
        return ()
    found: list[str] = []
    for word in text.split(","):
        found += _parse_word(word.strip())
        if len(found) > _MOST_WORDS:
            raise SlurmError(f"a list of more than {_MOST_WORDS} GPUs is none")
    return tuple(dict.fromkeys(found))


def _first_of(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    for name in names:
        value = environment.get(name)
        if value is not None and _is_understood(value):
            return f"{name}={value}"
    return None


def _is_understood(value: str) -> bool:
    try:
        parse_words(value)
    except SlurmError:
        return False
    return True


def _parse_word(word: str) -> list[str]:
    found = _NUMBERS.fullmatch(word)
    if found is not None:
        first, last = int(found[1]), int(found[2] or found[1])
        if first <= last < first + _MOST_WORDS:
            return [str(number) for number in range(first, last + 1)]
    elif _UUID.fullmatch(word) or _OLD_MIG.fullmatch(word):
        return [word]
    raise SlurmError(f"{word!a:.80} is neither a GPU's number nor its UUID")
