"""Asking nodes: every node is in the answer, and what comes back is believed in its form only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurm_io.reservation.asking import ask_nodes
from slurm_io.reservation.model import Answer, NodeSays
from slurm_io.reservation.node_report.says import MOST_BYTES, parse_says
from slurm_io.reservation.pool import read_pool
from tests.reservation.pools import C1, NODES, FakeReach, FakeSlurm, config_of, node, report


def ask(reach: FakeReach, slurm: FakeSlurm | None = None, **section: Any) -> dict[str, NodeSays]:
    config = config_of(**section)
    pool = read_pool(slurm or FakeSlurm(), config, "train")
    return ask_nodes(reach, pool, config, pool.nodes)


def test_each_node_answers_for_itself() -> None:
    reach = FakeReach({name: report() for name in NODES})
    found = ask(reach)
    assert list(found) == list(NODES)
    n4 = found["n4"]
    assert n4.node == "n4"  # and not what it calls itself
    assert n4.problem is None
    assert n4.data is not None
    assert (n4.data.content_id, n4.data.level, n4.data.bytes_behind) == (C1, 4, 0)
    assert n4.health["mounts"] == ("OK", "/data answers")
    assert n4.gpus == ("GPU-1", "GPU-2")


def test_the_question_names_dataset_and_tier_and_runs_in_the_reservation() -> None:
    reach = FakeReach({name: report() for name in NODES})
    ask(reach)
    ((nodes, arguments, reservation),) = reach.asked
    assert (nodes, reservation) == (NODES, "train")
    assert arguments[:2] == ("spare", "node-report")
    assert {f"--dataset=c4@{C1}", "--tier=local"} <= set(arguments)


def test_standby_nodes_are_asked_outside_the_reservation() -> None:
    reach = FakeReach({name: report() for name in (*NODES, "n9")})
    ask(reach, FakeSlurm(nodes_now=tuple(map(node, (*NODES, "n9")))), standby="n9")
    assert [(nodes, reservation) for nodes, _, reservation in reach.asked] == [
        (NODES, "train"),
        (("n9",), None),
    ]


def test_a_node_that_slurm_cannot_reach_is_not_asked() -> None:
    reach = FakeReach({name: report() for name in NODES})
    nodes = (*map(node, NODES[:3]), node("n4", base="DOWN", flags=("NOT_RESPONDING",)))
    found = ask(reach, FakeSlurm(nodes_now=nodes))
    assert reach.asked[0][0] == NODES[:3]
    assert found["n4"].problem == "not asked: Slurm says DOWN+NOT_RESPONDING"


def test_a_silent_node_and_a_failed_report_say_why() -> None:
    failed = Answer("n2", 3, b"", b"Warning: x\nslurm_io is not installed\n")
    reach = FakeReach({"n1": report(), "n2": failed, "n3": report()})
    found = ask(reach)
    assert found["n2"].problem == ("its report ended with exit code 3: slurm_io is not installed")
    assert found["n4"].problem == "its job did not start within 30 s"


HOSTILE: list[bytes] = [
    b"",
    b"\xff\x00",
    b"null",
    b"[]",
    b"[" * 100_000,
    b'{"data": 1, "health": [1], "skipped": {}, "drift": 3, "gpus": "x", "free_bytes": -1}',
    json.dumps(report(data={"level": True, "age_s": float("nan"), "bytes_behind": 1e400})).encode(),
    json.dumps(report(data={"level": 99, "state": "rm -rf", "bytes_behind": 10**400})).encode(),
    json.dumps(report(health={"x": ["FINE", "\x1b[31m"], "y": ["OK"], "z": [1, 2]})).encode(),
    json.dumps(report(gpus=["a" * 10_000, 3, None], strays=["\n" * 5])).encode(),
    json.dumps({f"k{number}": number for number in range(50_000)}).encode()[: MOST_BYTES + 1],
]


@pytest.mark.parametrize("raw", HOSTILE)
def test_hostile_reports_become_answers_of_the_right_form(raw: bytes) -> None:
    says = parse_says("n1", 5.0, raw)
    assert says.node == "n1"
    texts = [says.problem or "", *says.skipped, *says.gpus, *says.strays]
    texts += [text for pair in says.health.values() for text in pair]
    assert all(text.isprintable() and len(text) <= 400 for text in texts)
    assert says.free_bytes is None or says.free_bytes >= 0
    if says.data is not None:
        assert -1 <= says.data.level <= 4
        assert says.data.bytes_behind in (None, 0)
        assert says.data.state in ("ready", "unknown")
    assert {answer for answer, _ in says.health.values()} <= {"OK", "DEGRADED", "FAIL", "UNKNOWN"}
    json.dumps(says.to_dict(), allow_nan=False)


def test_too_long_a_report_is_none() -> None:
    padded = json.dumps(report(node="x" * MOST_BYTES)).encode()
    assert "more than" in (parse_says("n1", 0.0, padded).problem or "")


def test_a_users_own_process_cannot_have_its_node_fenced_or_vouch_for_a_disk() -> None:
    """On a full node the question runs in a job that is there, as its owner: he answers."""
    forged = json.dumps(report(health={"arrays": ["FAIL", "md0 lost a member"]})).encode()
    reach = FakeReach({"n1": Answer("n1", 0, forged, uid=1001), "n2": Answer("n2", 0, forged)})
    found = ask(reach)
    answer, text = found["n1"].health["arrays"]
    assert answer == "UNKNOWN" and "uid 1001" in text
    assert found["n1"].data is not None and found["n1"].data.level == 1
    assert found["n1"].told_by == 1001
    assert found["n2"].health["arrays"][0] == "FAIL"
    assert found["n2"].told_by is None


def test_a_rate_that_takes_for_ever_is_none() -> None:
    slow = json.dumps(report(data={"bytes_behind": 1 << 60, "rate_bytes_s": 1e-300})).encode()
    data = parse_says("n1", 0.0, slow).data
    assert data is not None and data.rate_bytes_s is None
