"""The table of what may follow from a result, and what the user reads of it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.model import CheckAnswer, CheckResult, FaultKind
from slurm_io.prolog.checks.base import Identity, Policy
from slurm_io.prolog.job_message import MAX_LINE_CHARS, MAX_LINES, message_lines
from slurm_io.prolog.policy import Verdict, judge
from slurm_io.prolog.run_checks import RanCheck
from tests.prolog.stand_ins import make_check, make_config, result

ASKED = (None, "warn", "hold")


def ran(
    *results: CheckResult,
    policy: Policy = "warn",
    identity: Identity = "root",
    timed_out: bool = False,
    name: str = "stand_in",
) -> RanCheck:
    check = make_check(results[0], policy=policy, identity=identity)
    return RanCheck(name, check, results, 0.1, 0.01, timed_out)


def action(one: RanCheck, asked: str | None = None, **tables: Any) -> str:
    return judge([one], make_config(**tables), asked).judged[0].action


@pytest.mark.parametrize(
    ("answer", "kind", "policy", "expected"),
    [
        ("OK", "node", "drain", "none"),
        ("FAIL", "node", "drain", "drain"),
        ("FAIL", "node", "stop", "stop"),
        ("FAIL", "node", "warn", "warn"),
        ("FAIL", "node", "record", "record"),
        ("FAIL", "job", "drain", "stop"),
        ("FAIL", "shared", "drain", "stop"),
        ("DEGRADED", "node", "drain", "warn"),
        ("DEGRADED", "job", "stop", "warn"),
        ("DEGRADED", "job", "record", "record"),
        ("UNKNOWN", "node", "drain", "record"),
        ("UNKNOWN", "job", "stop", "warn"),
    ],
)
def test_the_table(answer: CheckAnswer, kind: FaultKind, policy: Policy, expected: str) -> None:
    assert action(ran(result(answer, kind), policy=policy)) == expected


@given(
    answer=st.sampled_from(get_args(CheckAnswer)),
    kind=st.sampled_from(get_args(FaultKind)),
    default=st.sampled_from(get_args(Policy)),
    site=st.sampled_from(("", *get_args(Policy))),
    identity=st.sampled_from(get_args(Identity)),
    timed_out=st.booleans(),
    asked=st.sampled_from(ASKED),
)
def test_what_no_configuration_and_no_job_can_bring_about(
    answer: CheckAnswer,
    kind: FaultKind,
    default: Policy,
    site: str,
    identity: Identity,
    timed_out: bool,
    asked: str | None,
) -> None:
    one = ran(result(answer, kind), policy=default, identity=identity, timed_out=timed_out)
    found = action(one, asked, check={"stand_in": {"policy": site}})
    if found == "drain":
        assert (answer, kind, identity) == ("FAIL", "node", "root")
        assert (site or default) == "drain"
    if found == "stop":
        assert answer == "FAIL"
    if answer == "OK":
        assert found == "none"


@pytest.mark.parametrize("policy", get_args(Policy))
@pytest.mark.parametrize("answer", ["DEGRADED", "FAIL", "UNKNOWN"])
@pytest.mark.parametrize("asked", ASKED)
def test_no_policy_and_no_job_makes_more_of_a_note(
    answer: CheckAnswer, policy: Policy, asked: str | None
) -> None:
    for kind in get_args(FaultKind):
        one = ran(result(answer, kind, record_only=True), policy=policy, timed_out=True)
        assert action(one, asked) == "record"
        assert message_lines(judge([one], make_config(), asked), "t1") == []
    assert action(ran(result(record_only=True), policy=policy)) == "none"


def test_the_guard_hears_of_the_nodes_own_faults_only() -> None:
    """A stop for what a user chose, or in the user's rights, must not count as a failing node."""
    for kind, identity, counts in (
        ("node", "root", True), ("node", "user", False), ("job", "root", False),
        ("shared", "root", False),
    ):  # fmt: skip
        one = ran(result("FAIL", kind), policy="stop", identity=identity)  # type: ignore[arg-type]
        verdict = judge([one], make_config())
        assert verdict.stops
        assert bool(verdict.node_stops) == counts
        assert not verdict.drains
    assert not judge([ran(result("FAIL"), policy="drain")], make_config()).node_stops


def test_a_check_that_runs_as_the_user_never_drains() -> None:
    assert action(ran(result("FAIL"), policy="drain", identity="user")) == "stop"


def test_a_check_that_did_not_answer_in_time_is_worth_a_word() -> None:
    assert action(ran(result("UNKNOWN"), timed_out=True)) == "warn"


def test_the_sites_policy_wins_over_the_checks_own() -> None:
    assert action(ran(result("FAIL")), check={"stand_in": {"policy": "drain"}}) == "drain"
    assert action(ran(result("FAIL")), check={"stand_in": {"deadline_s": 1.0}}) == "warn"


@pytest.mark.parametrize(
    ("asked", "kind", "expected"),
    [
        ("hold", "job", "stop"),
        ("hold", "shared", "stop"),
        ("hold", "node", "record"),
        ("warn", "job", "record"),
    ],
)
def test_the_job_moves_its_own_checks_only(asked: str, kind: FaultKind, expected: str) -> None:
    assert action(ran(result("FAIL", kind), policy="record"), asked) == expected


def test_a_job_that_says_warn_is_not_stopped_by_its_own_data() -> None:
    assert action(ran(result("FAIL", "job"), policy="stop"), "warn") == "warn"
    assert action(ran(result("FAIL", "node"), policy="stop"), "warn") == "stop"


def test_after_the_guard_spoke_a_drain_is_a_warning() -> None:
    one = ran(result("FAIL"), policy="drain")
    verdict = judge([one], make_config(), None, frozenset({"stand_in"}))
    assert [each.action for each in verdict.judged] == ["warn"]
    assert not verdict.stops


def verdict_of(*results: CheckResult, policy: Policy = "warn") -> Verdict:
    return judge([ran(*results, policy=policy)], make_config())


def test_the_message_names_check_node_subject_and_what_to_do() -> None:
    bad = CheckResult(
        "dataset", "FAIL", "job", "3 of 9 files are missing: stage it again", "c4",
        commands=("slurm-io dataset stage c4", "second", "third"),
    )  # fmt: skip
    assert message_lines(verdict_of(bad, policy="stop"), "t1") == [
        "slurm-io: dataset FAIL on t1: c4: 3 of 9 files are missing: stage it again",
        "slurm-io:   $ slurm-io dataset stage c4",
        "slurm-io:   $ second",
        "slurm-io: the job was stopped before it began. Mend this and submit it again.",
    ]


def test_a_node_fault_says_that_the_job_is_not_to_blame() -> None:
    lines = message_lines(verdict_of(result("FAIL"), policy="drain"), "t1")
    assert lines[-1] == "slurm-io: t1 is faulty: nothing was started there. Submit the job again."


def test_nothing_is_said_when_all_is_well_or_only_recorded() -> None:
    assert message_lines(verdict_of(result()), "t1") == []
    assert message_lines(verdict_of(result("FAIL"), policy="record"), "t1") == []


@given(
    st.lists(
        st.builds(
            CheckResult,
            check=st.just("stand_in"),
            answer=st.sampled_from(get_args(CheckAnswer)),
            kind=st.sampled_from(get_args(FaultKind)),
            text=st.text(max_size=600),
            subject=st.none() | st.text(max_size=5000),
            commands=st.lists(st.text(max_size=50), max_size=9).map(tuple),
        ),
        min_size=1,
        max_size=40,
    ),
    st.sampled_from(get_args(Policy)),
)
def test_a_message_is_short_and_printable_whatever_the_results(
    results: list[CheckResult], policy: Policy
) -> None:
    lines = message_lines(verdict_of(*results, policy=policy), "t1")
    assert len(lines) <= MAX_LINES
    assert all(line.isprintable() and len(line) <= MAX_LINE_CHARS for line in lines)
