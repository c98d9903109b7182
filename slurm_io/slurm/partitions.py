"""Partitions as ``scontrol -o show partition`` prints them (JSON does not say which is default)."""

from __future__ import annotations

import re

from slurm_io.errors import SlurmError
from slurm_io.slurm.hostlist import expand
from slurm_io.slurm.infos import PartitionInfo
from slurm_io.slurm.record_text import PARTITION, split_records
from slurm_io.slurm.words import duration_of, name_of, whole_number

NONE = "No partitions in the system"
_NAME = re.compile(r"[^\s=,]{1,255}")


def partitions_from_text(text: str) -> tuple[PartitionInfo, ...]:
    """Every partition. Raises SlurmError for text that is none."""
    if text.strip() in ("", NONE):
        return ()
    return tuple(_partition(each, text) for each in split_records(text, PARTITION))


def _partition(fields: dict[str, str], text: str) -> PartitionInfo:
    name = fields.get("PartitionName", "")
    if not _NAME.fullmatch(name) or "State" not in fields:
        raise SlurmError(f"scontrol show partition: not a partition: {text[:80]!a}")
    return PartitionInfo(
        name=name,
        nodes=expand("" if fields.get("Nodes") in ("(null)", None) else fields["Nodes"]),
        state=fields["State"],
        is_default=fields.get("Default") == "YES",
        max_time_s=duration_of(fields.get("MaxTime", "")),
        priority_tier=whole_number(fields.get("PriorityTier", ""), "PriorityTier"),
        preempt_mode=name_of(fields.get("PreemptMode", "")),
    )
