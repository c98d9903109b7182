"""Whatever Slurm's answers hold: a record or one SlurmError, never a node or GPU out of nothing.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures; its seeds are
always the same.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.config_facts import config_from_text
from slurm_io.slurm.gres import gpus_of_gres, gpus_of_tres, parse_gres, parse_tres
from slurm_io.slurm.hostlist import expand, is_name
from slurm_io.slurm.infos import NodeInfo, ReservationInfo
from slurm_io.slurm.job_records import jobs_from_json
from slurm_io.slurm.job_resources import shares_of
from slurm_io.slurm.jobs import parse_jobs
from slurm_io.slurm.node_state import parse_nodes
from slurm_io.slurm.nodes import nodes_from_json, nodes_from_text
from slurm_io.slurm.partitions import partitions_from_text
from slurm_io.slurm.reservations import reservations_from_json, reservations_from_text
from slurm_io.slurm.sinfo import parse_gpu_counts, parse_sinfo_nodes
from slurm_io.slurm.version import meta_of, parse_json, parse_version
from slurm_io.slurm.words import duration_of, epoch_of, why_no_epoch
from tests.filesystems.counter_mutations import mutate

LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
FIXTURES = Path(__file__).parents[1] / "fixtures"
SEEDS = {
    path.relative_to(FIXTURES).as_posix(): path.read_bytes()
    for pattern in ("slurm/*", "cases/C*/*")
    for path in sorted(FIXTURES.glob(pattern))
    if path.name != "expected.json"
}
PIECES = (
    b" Reason=", b" [root@1]", b"NodeName=", b" State=IDLE", b" Comment=", b"(null)", b"gpu:9",
    b"gres/gpu=4", b"[1-99999]", b"[", b"]", b"IDX:0-9999", b"UNLIMITED", b"infinite", b"null",
    b'{"set":true,"infinite":false,"number":-1}', b"[]", b"{}", b"true", b"1e999", b"NaN", b",",
)  # fmt: skip


def _nodes(nodes: Iterable[NodeInfo], text: str) -> None:
    for node in nodes:
        assert is_name(node.name) and node.name in text
        assert node.gpus.devices >= 0 and all(node.gpus.by_type.values())
        if node.gpus.devices:
            assert "gpu" in text
        if node.is_free:
            assert "IDLE" in text.upper()


def _reservations(found: Iterable[ReservationInfo], text: str) -> None:
    for each in found:
        assert each.name in text
        assert all(map(is_name_or_list, each.nodes))


def is_name_or_list(name: str) -> bool:
    return name.upper() == "ALL" or is_name(name)


def from_json(text: str, parse: Callable[[dict[str, Any]], Any]) -> Any:
    """By way of what :func:`parse_json` gives, names as JSON itself spells them."""
    answer = parse_json(text)
    meta = meta_of(answer)
    assert meta.version is None or len(meta.version) == 3
    return parse(answer)


def _sinfo(text: str) -> None:
    for node in parse_sinfo_nodes(text).nodes:
        assert node.name in text
        assert 0 <= node.gpus_usable <= node.gpus.devices


PARSERS: dict[str, Callable[[str], Any]] = {
    "nodes": lambda text: _nodes(nodes_from_text(text), text),
    "node states": parse_nodes,
    "nodes json": lambda text: from_json(
        text, lambda answer: _nodes(nodes_from_json(answer), json.dumps(answer))
    ),
    "jobs json": lambda text: from_json(text, jobs_from_json),
    "job resources": lambda text: shares_of(json.loads(text)) if is_json(text) else None,
    "squeue": parse_jobs,
    "reservations": lambda text: _reservations(reservations_from_text(text), text),
    "reservations json": lambda text: from_json(text, reservations_from_json),
    "partitions": partitions_from_text,
    "configuration": config_from_text,
    "sinfo": _sinfo,
    "counts": parse_gpu_counts,
    "gres": lambda text: gpus_of_gres(parse_gres(text)),
    "tres": lambda text: gpus_of_tres(parse_tres(text)),
    "node list": expand,
    "version": parse_version,
    "duration": duration_of,
    "time": lambda text: (epoch_of(text), why_no_epoch(text)),
}


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def outcome(parse: Callable[[str], Any], text: str) -> str:
    try:
        parse(text)
    except SlurmError as error:
        assert "\n" not in str(error) and len(str(error)) < 1000
        return "refused"
    return "read"


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.one_of(st.text(max_size=300), st.sampled_from(PIECES).map(bytes.decode)))
def test_any_text_is_read_or_refused(name: str, text: str) -> None:
    outcome(PARSERS[name], text)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


def objects_in(file: str, key: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(SEEDS[f"slurm/{file}"])[key]
    return found


KINDS: dict[str, tuple[list[dict[str, Any]], Callable[[dict[str, Any]], Any]]] = {
    "nodes": (objects_in("nodes-24.11.5-v0.0.42.json", "nodes"), nodes_from_json),
    "jobs": (
        objects_in("jobs-24.11.5-v0.0.42.json", "jobs")
        + objects_in("jobs-22.05.8-v0.0.38.json", "jobs"),
        jobs_from_json,
    ),
    "reservations": (
        objects_in("reservations-26.05.5-v0.0.42.json", "reservations"),
        reservations_from_json,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_any_value_in_any_field_is_read_or_refused(kind: str, data: st.DataObject) -> None:
    records, parse = KINDS[kind]
    record = dict(data.draw(st.sampled_from(records)))
    for field in data.draw(st.lists(st.sampled_from(sorted(record)), max_size=4)):
        record[field] = data.draw(json_values)
    outcome(lambda _: parse({kind: [record]}), "")


def test_damaged_answers() -> None:
    _fuzz(random.Random(1), end_s=time.monotonic() + 3)


@pytest.mark.long
@pytest.mark.timeout(0)
def test_damaged_answers_for_long() -> None:
    tried, told, slowest_s = _fuzz(random.Random(2), end_s=time.monotonic() + LONG_S)
    print(f"{tried} damaged answers, slowest {slowest_s:.3f} s: {dict(sorted(told.items()))}")


def _fuzz(chance: random.Random, end_s: float) -> tuple[int, Counter[str], float]:
    """Each damaged answer goes through every parser, as an answer to another question would."""
    seeds, told, slowest_s, tried = list(SEEDS.values()), Counter[str](), 0.0, 0
    while time.monotonic() < end_s:
        data = mutate(chance.choice(seeds), seeds, chance)
        if chance.random() < 0.3:
            at = chance.randrange(len(data) + 1)
            data = data[:at] + chance.choice(PIECES) + data[at:]
        text = data.decode("utf-8", "replace")
        for name, parse in PARSERS.items():
            began_s = time.process_time()
            told[f"{name} {outcome(parse, text)}"] += 1
            slowest_s = max(slowest_s, time.process_time() - began_s)
        tried += 1
    assert slowest_s < 5.0
    return tried, told, slowest_s
