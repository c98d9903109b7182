"""Nodes as ``scontrol -d -o show node`` and ``scontrol show node --json`` tell of them.

GPUs come from Gres: CfgTRES names them only where the site accounts for them. State words come in
any order and number; 22.05's JSON has the base apart, in lower case. Marks behind a state
(``IDLE*``) are those of sinfo(1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.slurm.gres import gpus_of_gres, parse_gres, parse_tres
from slurm_io.slurm.hostlist import is_name, natural_key
from slurm_io.slurm.infos import NodeInfo, Reason
from slurm_io.slurm.json_fields import JsonFields
from slurm_io.slurm.node_state import split_reason
from slurm_io.slurm.record_text import NODE, split_records
from slurm_io.slurm.version import records_in
from slurm_io.slurm.words import (
    duration_of,
    epoch_of,
    name_of,
    names_of,
    text_of,
    whole_number,
)

BASES = frozenset(
    {"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE", "INVALID"}
)  # fmt: skip
MARKS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN",
    "%": "POWERING_DOWN", "$": "MAINTENANCE", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}  # fmt: skip
_WORD = re.compile(r"[A-Z][A-Z_]{1,31}")
_OLD_WORDS = {"DRAINED": ("IDLE", "DRAIN"), "MAINT": ("IDLE", "MAINTENANCE")}


def nodes_from_text(text: str) -> tuple[NodeInfo, ...]:
    """Every node of ``scontrol show node``, one-line or long form, in natural order.

    Raises SlurmError for text that is no node's, and for a node that comes twice.
    """
    return _in_order([_from_fields(each, text) for each in split_records(text, NODE)])


def nodes_from_json(answer: Mapping[str, Any]) -> tuple[NodeInfo, ...]:
    """Every node of an answer in JSON, of any schema, in natural order. Raises SlurmError."""
    return _in_order([_from_object(each) for each in records_in(answer, "nodes")])


def split_state(words: list[str]) -> tuple[str, tuple[str, ...]]:
    """(base, flags) of a state's words, flags in the order they were printed. Raises SlurmError."""
    found: list[str] = []
    for each in words:
        bare = each.rstrip("".join(MARKS)).upper()
        if not _WORD.fullmatch(bare):
            raise SlurmError(f"{each[:40]!a} is no word of a node's state")
        found += _OLD_WORDS.get(bare, (bare,))
        found += [MARKS[mark] for mark in each[len(bare) :]]
    base = next((each for each in found if each in BASES), "UNKNOWN")
    return base, tuple(dict.fromkeys(each for each in found if each != base))


def _in_order(nodes: list[NodeInfo]) -> tuple[NodeInfo, ...]:
    if len({node.name for node in nodes}) != len(nodes):
        raise SlurmError("a node that comes twice in one answer: it is damaged")
    return tuple(sorted(nodes, key=lambda node: natural_key(node.name)))


def _from_fields(fields: Mapping[str, str], text: str) -> NodeInfo:
    name, state = fields.get("NodeName", ""), fields.get("State", "")
    if not is_name(name) or not state:
        raise SlurmError(f"scontrol show node: not a node's line: {text[:80]!a}")
    base, flags = split_state(state.split("+"))

    def count(key: str) -> int | None:
        return whole_number(fields.get(key, ""), key)

    return NodeInfo(
        name=name,
        base=base,
        flags=flags,
        reason=_reason(fields.get("Reason", "")),
        comment=text_of(fields.get("Comment", "")),
        extra=text_of(fields.get("Extra", "")),
        partitions=names_of(fields.get("Partitions", "")),
        features=names_of(fields.get("AvailableFeatures", "")),
        active_features=names_of(fields.get("ActiveFeatures", "")),
        reservation=name_of(fields.get("ReservationName", "")),
        cpus=count("CPUTot"),
        cpus_allocated=count("CPUAlloc"),
        cores=_product(count("Sockets"), count("CoresPerSocket")),
        memory_mib=count("RealMemory"),
        memory_allocated_mib=count("AllocMem"),
        gpus=gpus_of_gres(parse_gres(fields.get("Gres", ""))),
        gpus_used=_used(fields.get("GresUsed")),
        tres_allocated=tuple(parse_tres(fields.get("AllocTRES", "")).items()),
        os=text_of(fields.get("OS", "")),
        version=name_of(fields.get("Version", "")),
        boot_s=epoch_of(fields.get("BootTime", "")),
        slurmd_start_s=epoch_of(fields.get("SlurmdStartTime", "")),
        last_busy_s=epoch_of(fields.get("LastBusyTime", "")),
        resume_after_s=epoch_of(fields.get("ResumeAfterTime", "")),
        suspend_time_s=_seconds(fields.get("SuspendTime", "")),
        address=text_of(fields.get("NodeAddr", "")),
    )


def _product(sockets: int | None, each: int | None) -> int | None:
    return None if sockets is None or each is None else sockets * each


def _from_object(node: Mapping[str, Any]) -> NodeInfo:
    name = JsonFields(node, "a node").text("name")
    if not is_name(name):
        raise SlurmError(f"JSON with a node called {name[:40]!a}")
    of = JsonFields(node, f"node {name}")
    base, flags = split_state([*of.names("state"), *of.names("state_flags")])
    reason = of.text("reason")
    return NodeInfo(
        name=name,
        base=base,
        flags=flags,
        reason=Reason(reason, of.name("reason_set_by_user"), of.epoch("reason_changed_at"))
        if reason
        else None,
        comment=of.text("comment"),
        extra=of.text("extra"),
        partitions=of.names("partitions"),
        features=of.names("features"),
        active_features=of.names("active_features"),
        reservation=of.name("reservation"),
        cpus=of.count("cpus"),
        cpus_allocated=of.count("alloc_cpus"),
        cores=_product(of.count("sockets"), of.count("cores")),
        memory_mib=of.count("real_memory"),
        memory_allocated_mib=of.count("alloc_memory"),
        gpus=gpus_of_gres(parse_gres(of.text("gres"))),
        gpus_used=_used(of.text("gres_used") if "gres_used" in node else None),
        tres_allocated=tuple(parse_tres(of.text("tres_used")).items()),
        os=of.text("operating_system"),
        version=of.name("version") or of.name("slurmd_version"),
        boot_s=of.epoch("boot_time"),
        slurmd_start_s=of.epoch("slurmd_start_time"),
        last_busy_s=of.epoch("last_busy"),
        resume_after_s=of.epoch("resume_after"),
        address=of.text("address"),
    )


def _reason(text: str) -> Reason | None:
    said, user, at = split_reason(text)
    return Reason(said, user, epoch_of(at or "")) if said else None


def _used(text: str | None) -> Any:
    return None if text is None else gpus_of_gres(parse_gres(text))


def _seconds(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text, re.ASCII) else duration_of(text)
