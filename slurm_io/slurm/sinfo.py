"""sinfo's tables: a node once per partition, and counts glued to what is counted.

``sinfo -N`` prints a line for each node and partition::

    a005 425000 876896 144/144/0/288 mixed gpu gpu:model_a:4(S:0-3) gpu:model_a:2(IDX:0,3)
    a002 0 876896 0/0/288/288 drained* gpu gpu:model_a:4(S:0-3) gpu:model_a:0(IDX:N/A)
    c001 730000 771951 192/0/0/192 allocated cpu* (null) (null)

A star behind a state is a node that does not answer, behind a partition the default one. Columns
of ``-O`` are cut to their width and have no blank between them when full: ``1056gpu:gb200:4``.
"""

from __future__ import annotations

import re

from slurm_io.errors import SlurmError
from slurm_io.records import dataclass, replace
from slurm_io.slurm.gres import Gpus, Gres, gpus_of_gres, parse_gres
from slurm_io.slurm.hostlist import is_name, natural_key
from slurm_io.slurm.nodes import MARKS

NODE_COLUMNS = (
    "NodeList:256,AllocMem:20,Memory:20,CPUsState:40,StateLong:40,Partition:128,Gres:1024,"
    "GresUsed:1024"
)
"""What ``sinfo -h -N -O`` is asked for :func:`parse_sinfo_nodes`."""
_LINE = re.compile(
    r"(?P<name>\S+)\s+(?P<used>[0-9]{1,12}|N/A)\s+(?P<memory>[0-9]{1,12})\s*"
    r"\s(?P<cpus>[0-9]{1,7}/[0-9]{1,7}/[0-9]{1,7}/[0-9]{1,7})\s+(?P<state>[A-Za-z_]+)"
    r"(?P<marks>[*~#!%$@^-]*)\s+(?P<partition>[^\s*]+)(?P<default>\*?)\s+"
    r"(?P<gres>\S+)(?:\s+(?P<gres_used>\S+))?",
    re.ASCII,
)
_COUNTED = re.compile(
    r"\s*(?P<nodes>[0-9]{1,7})\s*(?P<gres>[A-Za-z(]\S*)(?:\s+(?P<used>\S+))?\s*", re.ASCII
)
_USABLE = frozenset({"idle", "mixed"})


@dataclass(frozen=True)
class SinfoNode:
    """One node with all its partitions. `state` is sinfo's word without marks."""

    name: str
    state: str
    marks: str
    partitions: tuple[str, ...]
    gpus: Gpus
    gpus_used: Gpus
    gpu_indices: tuple[int, ...]
    cpus_allocated: int
    cpus_idle: int
    cpus: int
    memory_mib: int
    memory_allocated_mib: int | None

    @property
    def is_responding(self) -> bool:
        """slurmd answers."""
        return "*" not in self.marks

    @property
    def gpus_usable(self) -> int:
        """GPUs that a job could get now; 0 on a node that takes no new job."""
        if self.state not in _USABLE or self.marks:
            return 0
        return max(0, self.gpus.devices - self.gpus_used.devices)


@dataclass(frozen=True)
class SinfoTable:
    """All nodes of one answer, each once, and the default partition (None where none is)."""

    nodes: tuple[SinfoNode, ...]
    default_partition: str | None


@dataclass(frozen=True)
class GpuTotals:
    """Nodes and GPUs of lines that count like nodes together; `used` None without that column."""

    nodes: int
    gpus: int
    used: int | None


def parse_sinfo_nodes(text: str) -> SinfoTable:
    """The table of ``sinfo -h -N``. Raises SlurmError for a line that cannot be read, and for one
    that says something else about a node than the lines before."""
    found: dict[str, SinfoNode] = {}
    partitions: dict[str, list[str]] = {}
    default: str | None = None
    for line in filter(str.strip, text.splitlines()):
        match = _LINE.fullmatch(line.strip())
        if match is None or not is_name(match["name"]):
            raise SlurmError(f"sinfo -N: a line that cannot be read: {line[:80]!a}")
        node = _node(match)
        if found.setdefault(node.name, node) != node:
            raise SlurmError(f"sinfo -N: two lines that differ about {node.name}: ask again")
        partitions.setdefault(node.name, []).append(match["partition"])
        default = match["partition"] if match["default"] else default
    nodes = [_with(node, sorted(set(partitions[name]))) for name, node in found.items()]
    return SinfoTable(tuple(sorted(nodes, key=lambda each: natural_key(each.name))), default)


def parse_gpu_counts(text: str) -> GpuTotals:
    """Lines of node count, gres and, where asked for, gres in use. Raises SlurmError."""
    nodes = gpus = used = 0
    with_used = False
    for line in filter(str.strip, text.splitlines()):
        match = _COUNTED.fullmatch(line)
        if match is None:
            raise SlurmError(f"sinfo: a line that counts no nodes: {line[:80]!a}")
        count = int(match["nodes"])
        nodes += count
        gpus += count * gpus_of_gres(parse_gres(match["gres"])).devices
        if match["used"] is not None:
            with_used = True
            used += count * gpus_of_gres(parse_gres(match["used"])).devices
    return GpuTotals(nodes, gpus, used if with_used else None)


def _node(match: re.Match[str]) -> SinfoNode:
    gres_used = parse_gres(match["gres_used"] or "")
    allocated, idle, _, total = map(int, match["cpus"].split("/"))
    assert set(match["marks"]) <= set(MARKS)
    gpus, used = gpus_of_gres(parse_gres(match["gres"])), gpus_of_gres(gres_used)
    if used.devices > gpus.devices:
        raise SlurmError(f"sinfo -N: {match['name']} uses more GPUs than it has")
    return SinfoNode(
        name=match["name"],
        state=match["state"].lower(),
        marks=match["marks"],
        partitions=(),
        gpus=gpus,
        gpus_used=used,
        gpu_indices=_indices(gres_used),
        cpus_allocated=allocated,
        cpus_idle=idle,
        cpus=total,
        memory_mib=int(match["memory"]),
        memory_allocated_mib=None if match["used"] == "N/A" else int(match["used"]),
    )


def _indices(entries: tuple[Gres, ...]) -> tuple[int, ...]:
    return tuple(sorted(each for one in entries if one.name == "gpu" for each in one.indices))


def _with(node: SinfoNode, partitions: list[str]) -> SinfoNode:
    return replace(node, partitions=tuple(partitions))
