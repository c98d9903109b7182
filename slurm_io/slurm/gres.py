"""GPUs in Slurm's counts: generic resources (``gpu:a100:4(S:0-1)``) and TRES (``gres/gpu:a100=4``).

In a TRES list the total (``gres/gpu=4``) and the counts by type are the same GPUs said twice, and
the total may be missing; in a gres list each entry is other GPUs. A MIG slice has its profile in
the type (``a100_1g.5gb``, ``1g.10gb``, ``3g.20gb+me``) and is no whole GPU. ``gpumem``,
``gpuutil``, ``shard`` and ``mps`` are no GPUs. Sources: gres.conf(5), slurm.conf(5), sacct(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from slurm_io.errors import SlurmError
from slurm_io.records import dataclass, field
from slurm_io.slurm.words import EMPTY

LONGEST = 65536
_MOST = 1_000_000
_MIG = re.compile(
    r"(?:^|[^0-9A-Za-z])(?:[1-9]c[._-])?[1-9]g[._-]?[0-9]{1,4}gb(?:[^0-9A-Za-z]|$)", re.IGNORECASE
)
_WORD = r"[A-Za-z][A-Za-z0-9_.+/-]*"
_ENTRY = re.compile(
    rf"(?:gres[:/])?(?P<name>{_WORD})"
    r"(?::(?P<type>\(null\)|[A-Za-z0-9_][A-Za-z0-9_.+/-]*?))?"
    r"(?::no_consume)?(?:[:=](?P<count>[0-9]{1,12})(?P<unit>[KMGTP]?))?"
    r"(?:\((?P<of>S|IDX|CNT):(?P<which>[0-9,-]*|N/A)\))?",
    re.ASCII,
)
_BARE_COUNT = re.compile(r"([0-9]{1,12})([KMGTP]?)", re.ASCII)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_AMOUNT = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,6}))?([KMGTP]?)", re.ASCII)


@dataclass(frozen=True)
class Gpus:
    """GPUs by type: whole ones, and slices by MIG profile. A type that is not told is ""."""

    whole: Mapping[str, int] = field(default_factory=dict)
    mig: Mapping[str, int] = field(default_factory=dict)

    @property
    def whole_count(self) -> int:
        """Whole GPUs."""
        return sum(self.whole.values())

    @property
    def mig_count(self) -> int:
        """MIG slices."""
        return sum(self.mig.values())

    @property
    def devices(self) -> int:
        """What Slurm hands out: whole GPUs and slices, each counted once."""
        return self.whole_count + self.mig_count

    @property
    def by_type(self) -> dict[str, int]:
        """Whole GPUs and slices by type, without those that are none."""
        return {kind: count for kind, count in {**self.whole, **self.mig}.items() if count}


@dataclass(frozen=True)
class Gres:
    """One entry of a gres list. `indices` are the devices in use (``IDX``); () where not told."""

    name: str
    type: str
    count: int
    indices: tuple[int, ...] = ()


def parse_gres(text: str) -> tuple[Gres, ...]:
    """``gpu:a:2(S:0-1),gpu:b:2``, ``gpu:4(IDX:0,3)``, ``(null)``. Raises SlurmError."""
    _bounded(text)
    if text.strip() in EMPTY:
        return ()
    return tuple(_entry(each.strip()) for each in _outside_brackets(text))


def gpus_of_gres(entries: Iterable[Gres]) -> Gpus:
    """The GPUs among a node's or a job's gres."""
    counts: dict[str, int] = {}
    for each in entries:
        if each.name == "gpu":
            counts[each.type] = counts.get(each.type, 0) + each.count
    return _sorted_out({kind: count for kind, count in counts.items() if count})


def parse_tres(text: str) -> dict[str, int]:
    """``cpu=4,mem=12G,gres/gpu:a100=2`` as counts; mem in MiB, as Slurm counts it.

    Raises SlurmError for what is no such list, and for a name that comes with two counts.
    """
    _bounded(text)
    counts: dict[str, int] = {}
    for each in text.strip().split(",") if text.strip() not in EMPTY else ():
        name, equals, amount = each.strip().partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.:/+ -]{0,127}", name, re.ASCII):
            raise SlurmError(f"a list of TRES with {each[:60]!a} in it is none")
        count = _amount(name, amount)
        if counts.setdefault(name, count) != count:
            raise SlurmError(f"a list of TRES that says two things about {name[:60]}")
    return counts


def gpus_of_tres(counts: Mapping[str, int]) -> Gpus:
    """The GPUs of a TRES list. Raises SlurmError where types add up to more than the total."""
    typed = {
        name.partition(":")[2]: count
        for name, count in counts.items()
        if name.startswith("gres/gpu:") and count
    }
    total = counts.get("gres/gpu")
    if total is not None and total < sum(typed.values()):
        raise SlurmError(f"a list of TRES with {total} GPUs and {sum(typed.values())} by type")
    rest = (total or 0) - sum(typed.values()) if total is not None else 0
    return _sorted_out({**typed, **({"": rest} if rest else {})})


def is_mig(kind: str) -> bool:
    """Whether a GPU's type is a MIG profile."""
    return _MIG.search(kind) is not None


def _sorted_out(counts: Mapping[str, int]) -> Gpus:
    if any(count > _MOST for count in counts.values()):
        raise SlurmError(f"more than {_MOST} GPUs of a type cannot be")
    return Gpus(
        whole={kind: count for kind, count in counts.items() if not is_mig(kind)},
        mig={kind: count for kind, count in counts.items() if is_mig(kind)},
    )


def _entry(text: str) -> Gres:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise SlurmError(f"{text[:60]!a} is no generic resource")
    kind, count, unit = found["type"] or "", found["count"], found["unit"] or ""
    if kind == "no_consume":
        kind = ""
    if count is None and (bare := _BARE_COUNT.fullmatch(kind)):  # gpu:2
        kind, count, unit = "", bare[1], bare[2]
    if kind == "(null)":
        kind = ""
    amount = int(count or 1) * _UNITS[unit]
    indices = _indices(found["which"]) if found["of"] == "IDX" else ()
    if len(indices) > amount:
        raise SlurmError(f"{text[:60]!a} names more devices than it counts")
    return Gres(found["name"], kind, amount, indices)


def _indices(text: str) -> tuple[int, ...]:
    if text in ("", "N/A"):
        return ()
    found: list[int] = []
    for each in text.split(","):
        ends = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", each, re.ASCII)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise SlurmError(f"{text[:60]!a} is no list of devices")
        found.extend(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    if len(set(found)) != len(found):
        raise SlurmError(f"{text[:60]!a} names a device twice")
    return tuple(found)


def _amount(name: str, text: str) -> int:
    if text in EMPTY:
        return 0
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise SlurmError(f"{name[:40]}={text[:40]!a} is no amount")
    unit = _UNITS[found[3]]
    if name == "mem":  # bare megabytes, or with a unit of its own
        return _scaled(found[1], found[2], unit) // 2**20 if found[3] else int(found[1])
    return _scaled(found[1], found[2], unit)


def _scaled(whole: str, fraction: str | None, unit: int) -> int:
    digits = fraction or "0"
    return int(whole) * unit + int(digits) * unit // int(f"1{'0' * len(digits)}")


def _outside_brackets(text: str) -> list[str]:
    """Split at the commas that are not within (IDX:0,3)."""
    return re.split(r",(?![^()]*\))", text.strip())


def _bounded(text: str) -> None:
    if len(text) > LONGEST:
        raise SlurmError(f"a list of resources of {len(text)} characters is none")
