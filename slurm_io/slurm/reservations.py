"""Reservations as ``scontrol show reservation`` tells of them, as text and in JSON.

This project asks for text, of every version: JSON before v0.0.44 leaves out REPLACE_DOWN (seen in
24.11 and 26.05 with v0.0.42: ``"flags": []``), so that a reservation whose nodes Slurm replaces by
itself would look like one that keeps them; and JSON never says whether it is active.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.slurm.gres import parse_tres
from slurm_io.slurm.hostlist import expand
from slurm_io.slurm.infos import ReservationInfo
from slurm_io.slurm.json_fields import JsonFields
from slurm_io.slurm.record_text import RESERVATION, split_records
from slurm_io.slurm.version import records_in
from slurm_io.slurm.words import (
    duration_of,
    epoch_of,
    name_of,
    names_of,
    text_of,
    whole_number,
    why_no_epoch,
)

NONE = "No reservations in the system"
_NAME = re.compile(r"[^\s=,\x00-\x1f\x7f]{1,255}")
_FLAG = re.compile(r"([A-Z][A-Z_]{1,40})(?:[=+-].*)?")
# scontrol takes other words than it prints.
_SPELLINGS = {
    "STATIC_ALLOC": "STATIC",
    "NO_HOLD_JOBS_AFTER": "NO_HOLD_JOBS_AFTER_END",
    "IGN_JOBS": "IGNORE_JOBS",
    "PURGE": "PURGE_COMP",
}


def reservations_from_text(text: str) -> tuple[ReservationInfo, ...]:
    """Every reservation, one-line or long form. Raises SlurmError for text that is none."""
    if text.strip() in ("", NONE):
        return ()
    return _once([_from_fields(each, text) for each in split_records(text, RESERVATION)])


def reservations_from_json(answer: Mapping[str, Any]) -> tuple[ReservationInfo, ...]:
    """Every reservation of an answer in JSON; flags as far as the schema has them."""
    return _once([_from_object(each) for each in records_in(answer, "reservations")])


def is_reservation_name(text: str) -> bool:
    """Whether a reservation can be called so."""
    return _NAME.fullmatch(text) is not None


def normal_flags(words: tuple[str, ...]) -> tuple[str, ...]:
    """Flags in scontrol's spelling, each once, without ``=value``. Raises SlurmError."""
    found: list[str] = []
    for each in words:
        match = _FLAG.fullmatch(each.strip().upper().lstrip("+"))
        if match is None:
            raise SlurmError(f"{each[:40]!a} is no flag of a reservation")
        found.append(_SPELLINGS.get(match[1], match[1]))
    return tuple(dict.fromkeys(found))


def _once(found: list[ReservationInfo]) -> tuple[ReservationInfo, ...]:
    if len({each.name for each in found}) != len(found):
        raise SlurmError("a reservation that comes twice in one answer: it is damaged")
    return tuple(found)


def _from_fields(fields: Mapping[str, str], text: str) -> ReservationInfo:
    name = fields.get("ReservationName", "")
    if not is_reservation_name(name) or "Nodes" not in fields:
        raise SlurmError(f"scontrol show reservation: not a reservation: {text[:80]!a}")
    problems = [
        f"{key}: {why}"
        for key in ("StartTime", "EndTime")
        if (why := why_no_epoch(fields.get(key, "")))
    ]
    return _counted(
        ReservationInfo(
            name=name,
            nodes=expand("" if fields["Nodes"] in ("(null)", "NONE") else fields["Nodes"]),
            start_s=epoch_of(fields.get("StartTime", "")),
            end_s=epoch_of(fields.get("EndTime", "")),
            duration_s=duration_of(fields.get("Duration", "")),
            state=name_of(fields.get("State", "")),
            flags=normal_flags(names_of(fields.get("Flags", ""))),
            partition=name_of(fields.get("PartitionName", "")),
            users=names_of(fields.get("Users", "")),
            accounts=names_of(fields.get("Accounts", "")),
            cores=whole_number(fields.get("CoreCnt", ""), "CoreCnt"),
            node_count=whole_number(fields.get("NodeCnt", ""), "NodeCnt"),
            tres=tuple(parse_tres(fields.get("TRES", "")).items()),
            comment=text_of(fields.get("Comment", "")),
            problems=tuple(problems),
        )
    )


def _from_object(each: Mapping[str, Any]) -> ReservationInfo:
    name = JsonFields(each, "a reservation").text("name")
    if not is_reservation_name(name):
        raise SlurmError(f"JSON with a reservation called {name[:40]!a}")
    of = JsonFields(each, f"reservation {name}")
    start_s, end_s = of.epoch("start_time"), of.epoch("end_time")
    known = start_s is not None and end_s is not None
    return _counted(
        ReservationInfo(
            name=name,
            nodes=expand(of.text("node_list")),
            start_s=start_s,
            end_s=end_s,
            duration_s=(end_s or 0) - (start_s or 0) if known else None,
            flags=normal_flags(of.names("flags")),
            partition=of.name("partition"),
            users=of.names("users"),
            accounts=of.names("accounts"),
            cores=of.count("core_count"),
            node_count=of.count("node_count"),
            tres=tuple(parse_tres(of.text("tres")).items()),
            comment=of.text("comment"),
        )
    )


def _counted(found: ReservationInfo) -> ReservationInfo:
    if found.node_count is not None and found.node_count != len(found.nodes):
        raise SlurmError(
            f"reservation {found.name}: {len(found.nodes)} nodes named, {found.node_count} "
            "counted: the answer is damaged, ask again"
        )
    return found
