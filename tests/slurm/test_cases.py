"""Recorded answers of real clusters, 21.08 to 26.05, and what is right about each.

tests/fixtures/cases/C*: the input and ``expected.json``, whose "answer" is compared in full.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.slurm.gres import Gpus, gpus_of_tres, parse_tres
from slurm_io.slurm.infos import NodeInfo, ReservationInfo
from slurm_io.slurm.job_resources import shares_of
from slurm_io.slurm.nodes import nodes_from_text
from slurm_io.slurm.reservations import reservations_from_json, reservations_from_text
from slurm_io.slurm.sinfo import SinfoNode, parse_gpu_counts, parse_sinfo_nodes
from slurm_io.slurm.version import meta_of, parse_json

CASES = Path(__file__).parents[1] / "fixtures" / "cases"


def answer(case: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((CASES / case / "expected.json").read_text())["answer"]
    return expected


def text(case: str, name: str) -> str:
    return (CASES / case / name).read_text()


# -- C01: five state flags in any order, an OS full of blanks, an empty AllocTRES ----------------


def c01_node(node: NodeInfo) -> dict[str, Any]:
    reason = node.reason and {
        "text": node.reason.text,
        "user": node.reason.user,
        "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(node.reason.at_s)),
    }
    return {
        "base": node.base,
        "flags": list(node.flags),
        "drained": node.is_drained,
        "cpus_alloc": node.cpus_allocated,
        "mem_alloc_mb": node.memory_allocated_mib,
        "gpus": node.gpus.devices,
        "partitions": list(node.partitions),
        "reservation": node.reservation,
        "reason": reason,
        "os": node.os,
    }


def test_c01_state_flags_of_25_11() -> None:
    expected, nodes = answer("C01"), nodes_from_text(text("C01", "nodes.txt"))
    assert {node.name: c01_node(node) for node in nodes} == expected["nodes"]
    assert [n.name for n in nodes if n.is_drained] == expected["draining_or_drained"]
    assert [n.name for n in nodes if n.is_free] == expected["idle_free_no_reservation"]
    held: dict[str, list[str]] = {}
    for node in nodes:
        if node.is_idle and node.reservation is not None:
            held.setdefault(node.reservation, []).append(node.name)
    assert held == expected["idle_in_reservation"]
    mixed = [n.name for n in nodes if n.base == "MIXED" and n.cpus_allocated == 0]
    assert mixed == expected["mixed_without_cpus"]
    for name, tres in expected["alloc_tres"].items():
        (node,) = (n for n in nodes if n.name == name)
        said = ",".join(f"{key}={value}" for key, value in tres.items())
        assert dict(node.tres_allocated) == parse_tres(said)


# -- C02: a key that older versions lack, two GPU types, no GPUs in CfgTRES -----------------------


def test_c02_new_keys_of_26_05() -> None:
    expected, nodes = answer("C02"), nodes_from_text(text("C02", "nodes.txt"))
    assert [node.name for node in nodes] == expected["natural_order"]
    for node in nodes:
        told = {
            "gpus": node.gpus.by_type,
            "base": node.base,
            "suspend_time": node.suspend_time_s,
            "cpus_alloc": node.cpus_allocated,
            "mem_alloc_mb": node.memory_allocated_mib,
        }
        wanted = expected["nodes"][node.name]
        assert {key: told[key] for key in wanted} == wanted
        assert node.version == expected["version"]
    assert sum(node.gpus.devices for node in nodes) == expected["gpus_total"]


# -- C03: the count is glued to what it counts ---------------------------------------------------


def test_c03_glued_columns() -> None:
    expected = answer("C03")
    total = parse_gpu_counts(text("C03", "gpus_total.txt"))
    allocated = parse_gpu_counts(text("C03", "gpus_allocated.txt"))
    idle = parse_gpu_counts(text("C03", "gpus_idle.txt"))
    assert (total.nodes, total.gpus) == (expected["nodes"], expected["gpus_total"])
    assert allocated.gpus == expected["gpus_allocated"]
    assert idle.used is not None and idle.gpus - idle.used == expected["gpus_idle"]


# -- C04: a line for each node and partition -----------------------------------------------------


def one_or_by_type(gpus: Gpus, types: Gpus) -> Any:
    if len(types.by_type) > 1:
        return {kind: gpus.by_type.get(kind, 0) for kind in types.by_type}
    return gpus.devices


def c04_node(node: SinfoNode) -> dict[str, Any]:
    return {
        "state": node.state,
        "responding": node.is_responding,
        "partitions": list(node.partitions),
        "gpus": one_or_by_type(node.gpus, node.gpus),
        "gpus_used": one_or_by_type(node.gpus_used, node.gpus),
        "idx": list(node.gpu_indices),
    }


def test_c04_a_node_is_counted_once() -> None:
    expected, table = answer("C04"), parse_sinfo_nodes(text("C04", "sinfo.txt"))
    told = {node.name: c04_node(node) for node in table.nodes}
    assert told.keys() == expected["nodes"].keys()
    for name, wanted in expected["nodes"].items():
        assert {key: told[name][key] for key in wanted} == wanted
    assert table.default_partition == expected["default_partition"]
    assert len(table.nodes) == expected["node_count"]
    assert sum(node.gpus.devices for node in table.nodes) == expected["gpus_total"]
    assert sum(node.gpus_used.devices for node in table.nodes) == expected["gpus_used"]
    usable = {node.name: node.gpus_usable for node in table.nodes if node.gpus_usable}
    assert usable == expected["gpus_usable_now"]


# -- C06: four shapes of a job's resources -------------------------------------------------------


@pytest.mark.parametrize("name", sorted(answer("C06")))
def test_c06_resources_of_a_job(name: str) -> None:
    shares = shares_of(json.loads(text("C06", name)))
    told = {
        node: {"cpus": share.cpus, "cores": share.cores, "memory_mb": share.memory_mib}
        for node, share in shares.items()
    }
    assert told == answer("C06")[name]


# -- C07: where JSON says its version ------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(answer("C07")))
def test_c07_meta(name: str) -> None:
    meta = meta_of(parse_json(text("C07", name)))
    told = {
        "version": list(meta.version) if meta.version else None,
        "data_parser": meta.schema,
        "usable": meta.usable,
        "warnings": len(meta.warnings),
    }
    wanted = answer("C07")[name]
    assert {key: told[key] for key in wanted} == wanted


# -- C09: a time without a day, cores that are not whole nodes -----------------------------------


def c09_reservation(found: ReservationInfo) -> dict[str, Any]:
    return {
        "name": found.name,
        "nodes": list(found.nodes),
        "start": found.start_s,
        "end": found.end_s,
        "duration_s": found.duration_s,
        "state": found.state,
        "flags": list(found.flags),
        "partition": found.partition,
        "users": list(found.users),
        "accounts": list(found.accounts),
        "tres": dict(found.tres),
    }


def test_c09_text_without_days() -> None:
    (found,) = reservations_from_text(text("C09", "res.txt"))
    wanted = answer("C09")["res.txt"]
    assert wanted.pop("why_start_null")
    assert c09_reservation(found) == wanted
    assert [each.partition(":")[0] for each in found.problems] == ["StartTime", "EndTime"]
    assert "SLURM_TIME_FORMAT" in found.problems[0]
    assert found.is_active(time.time()) is None


def test_c09_json() -> None:
    (found,) = reservations_from_json(parse_json(text("C09", "res.json")))
    assert c09_reservation(found) == answer("C09")["res.json"]
    assert found.cores == 8
    assert found.is_active(1728633600) and not found.is_active(1728745200)


# -- C11: totals, types and MIG slices -----------------------------------------------------------


def test_c11_gpus_of_tres() -> None:
    lines = text("C11", "tres.txt").split("\n")
    for line, wanted in zip(lines, answer("C11")["lines"], strict=False):
        gpus = gpus_of_tres(parse_tres(line))
        assert {
            "gpu_devices": gpus.devices,
            "whole": dict(gpus.whole),
            "mig": dict(gpus.mig),
            "whole_count": gpus.whole_count,
            "mig_count": gpus.mig_count,
        } == wanted, line
