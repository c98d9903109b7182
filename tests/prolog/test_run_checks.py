"""Checks side by side: whatever one of them does, the others answer and the time is kept."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.probe import Answer, Probe, probe
from slurm_io.host.same_process import is_alive
from slurm_io.prolog.check_answers import left_pids_of, read_results
from slurm_io.prolog.check_plan import Plan, plan_checks
from slurm_io.prolog.checks.base import Check, CheckContext
from slurm_io.prolog.node_memory import STUCK_PER_CHECK, NodeMemory
from slurm_io.prolog.run_checks import CheckRun, RanCheck, with_left_behind
from slurm_io.slurm.hook_entry import DeadlineError
from tests.labs.freezer import freezer_group, sleep_in_state_d
from tests.prolog.stand_ins import make_check, make_context, result

GOOD = make_check(result())


def run(
    checks: Mapping[str, Check], deadline_s: float = 5.0, memory: NodeMemory | None = None
) -> dict[str, RanCheck]:
    plan = plan_checks(checks, make_context(checks={"deadline_s": deadline_s}), deadline_s)
    made = CheckRun(plan, memory or NodeMemory())
    made.run()
    return {each.name: each for each in made.ran}


def answer(ran: RanCheck) -> tuple[str, str]:
    assert len(ran.results) == 1
    return ran.results[0].answer, ran.results[0].text


def open_descriptors() -> set[str]:
    gc.collect()  # what earlier tests left unreferenced must not close between two looks
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def hang(context: CheckContext) -> Any:
    time.sleep(60)


def test_results_come_back_under_the_checks_own_name() -> None:
    ran = run({"mounts": GOOD})["mounts"]
    assert ran.results[0].check == "mounts"
    assert answer(ran) == ("OK", "as it should be")
    assert ran.cpu_s is not None
    assert ran.cpu_s >= 0


def test_a_slow_check_is_named_with_where_it_sleeps_and_the_others_have_answered() -> None:
    began_s = time.monotonic()
    ran = run({"slow": make_check(hang), "good": GOOD}, deadline_s=0.3)
    assert time.monotonic() - began_s < 3
    assert answer(ran["good"])[0] == "OK"
    said = answer(ran["slow"])
    assert said[0] == "UNKNOWN"
    assert "no answer within 0.3 s; it slept in " in said[1]
    assert ran["slow"].timed_out


def test_they_run_side_by_side_and_more_than_fit_at_once_all_answer() -> None:
    def nap(context: CheckContext) -> Any:
        time.sleep(0.3)
        return [result()]

    began_s = time.monotonic()
    ran = run({f"check{number}": make_check(nap) for number in range(12)})
    assert time.monotonic() - began_s < 3.0, "one after the other they take 3.6 s"
    assert {answer(each)[0] for each in ran.values()} == {"OK"}


def test_what_did_not_get_its_turn_says_so() -> None:
    ran = run({f"check{number:02}": make_check(hang) for number in range(10)}, deadline_s=2)
    said = [answer(each)[1] for each in ran.values()]
    assert len(said) == 10
    assert sum("no answer within" in text for text in said) == 8
    assert sum("not begun" in text for text in said) == 2


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda context: 1 / 0, "ZeroDivisionError"),
        (lambda context: Path("/nonexistent").stat(), "No such file or directory"),
        (lambda context: os._exit(0), "the child ended without an answer"),
        (lambda context: os.kill(os.getpid(), signal.SIGSEGV), "ended without an answer"),
        (lambda context: None, "TypeError"),
        (lambda context: [None], "AttributeError"),
        (lambda context: [result("PERHAPS")], "no answer"),  # type: ignore[arg-type]
        (lambda context: [result(kind="moon")], "no kind"),  # type: ignore[arg-type]
        (lambda context: [result(text=7)], "a text is none"),  # type: ignore[arg-type]
        (lambda context: [result(facts={"bytes": b"x"})], "not JSON serializable"),
        (lambda context: [result(facts={"nan": float("nan")})], "malformed"),
        (lambda context: [result(facts={"set": {1}})], "not JSON serializable"),
        (lambda context: [result(commands="ls")], "malformed"),
        (lambda context: [result()] * 65, "at most 64"),
        (lambda context: [result(text="")], "said nothing"),
    ],
)  # fmt: skip
def test_a_check_gone_wrong_is_unknown_and_says_why(function: Any, text: str) -> None:
    ran = run({"odd": make_check(function), "good": GOOD})
    assert answer(ran["odd"])[0] == "UNKNOWN"
    assert text in answer(ran["odd"])[1]
    assert answer(ran["good"])[0] == "OK"


def test_text_cannot_drive_a_terminal_and_is_bounded() -> None:
    hostile = result(
        text="\x1b[2J\nprint owned" + "x" * 9000, subject="a\nb\udcff", commands=("rm\r\n-rf",) * 99
    )
    found = run({"odd": make_check(hostile)})["odd"].results[0]
    assert found.text.isprintable()
    assert len(found.text) <= 500
    assert found.subject == "a?b?"
    assert len(found.commands) == 41
    assert found.commands[0] == "rm??-rf"


@pytest.mark.parametrize(("said", "read"), [(True, True), (False, False), ("yes", False)])
def test_a_note_stays_a_note_on_its_way_from_the_child(said: Any, read: bool) -> None:
    sent = {**result("DEGRADED").to_dict(), "record_only": said}
    assert [each.record_only for each in read_results("x", [sent])] == [read]


def test_facts_of_absurd_size_are_left_out_and_that_is_said() -> None:
    found = run({"odd": make_check(result(facts={"list": ["x" * 100] * 1000}))})["odd"].results[0]
    assert found.answer == "OK"
    assert found.facts == {}
    assert "too long to keep" in found.not_looked_at[0]


def test_a_check_that_children_of_earlier_ones_hang_in_is_not_tried_again() -> None:
    memory = NodeMemory({"mounts": ((os.getpid(), 1),) * STUCK_PER_CHECK})
    ran = run({"mounts": GOOD, "other": GOOD}, memory=memory)
    assert answer(ran["mounts"])[0] == "UNKNOWN"
    assert f"children of earlier checks still hang: {os.getpid()}" in answer(ran["mounts"])[1]
    assert answer(ran["other"])[0] == "OK"


def test_what_a_user_has_hang_in_his_own_file_system_stops_the_check_for_nobody_else() -> None:
    me = (os.getpid(), 1)
    memory = NodeMemory({"space:5": (me,) * STUCK_PER_CHECK})  # uid 5 is whom make_context names
    users = make_check(result(), identity="user")
    assert answer(run({"space": users}, memory=memory)["space"])[0] == "UNKNOWN"
    other = NodeMemory({"space:6": (me,) * STUCK_PER_CHECK})
    assert answer(run({"space": GOOD}, memory=other)["space"])[0] == "OK"
    assert answer(run({"space": GOOD}, memory=memory)["space"])[0] == "OK", "as root it is another"


def test_a_check_not_tried_is_told_to_the_user() -> None:
    memory = NodeMemory({"mounts": ((os.getpid(), 1),) * STUCK_PER_CHECK})
    assert run({"mounts": GOOD}, memory=memory)["mounts"].timed_out


@pytest.mark.root
def test_a_process_that_a_checks_own_child_became_in_the_kernel_is_remembered() -> None:
    """Each job would leave one more behind, which nobody counts."""

    def ask_what_hangs(context: CheckContext) -> Any:
        said = probe(sleep_in_state_d, group, timeout_s=0.3)
        return [result("UNKNOWN", text=said.reason)]

    with freezer_group() as group:
        ran = run({"space": make_check(ask_what_hangs)})["space"]
        assert "was left behind" in answer(ran)[1]
        ((pid, starttime),) = ran.stuck
        assert is_alive(pid, starttime)
        assert with_left_behind(NodeMemory(), [ran]).stuck == {"space": ran.stuck}


@pytest.mark.root
def test_a_stopped_check_takes_its_hanging_child_with_it_into_memory() -> None:
    """Its user may stop it (SIGSTOP) so that it never tells."""

    def leave_one_and_stop(context: CheckContext) -> Any:
        Probe([(sleep_in_state_d, (group,))], 60).wait(0.5)
        os.kill(os.getpid(), signal.SIGSTOP)

    with freezer_group() as group:
        ran = run({"space": make_check(leave_one_and_stop)}, deadline_s=1.5)["space"]
        assert ran.timed_out
        assert len(ran.stuck) == 1


def test_facts_nested_beyond_sense_are_malformed() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"a": [deep]}
    ran = run({"odd": make_check(result(facts=deep))})["odd"]
    assert answer(ran)[0] == "UNKNOWN"
    assert "nested too deep" in answer(ran)[1]


def test_pids_that_a_child_made_up_are_not_believed() -> None:
    said = [True, -1, 0, 1 << 40, "1", None, *range(1, 100)]
    assert left_pids_of(Answer("ok", {"left": said})) == (1, 2)
    assert left_pids_of(Answer("ok", {"left": {"1": 1}})) == ()
    assert left_pids_of(Answer("ok", [1])) == ()


def test_a_check_is_the_first_to_go_when_memory_runs_out() -> None:
    def read(context: CheckContext) -> Any:
        return [result(text=Path("/proc/self/oom_score_adj").read_text().strip())]

    assert answer(run({"odd": make_check(read)})["odd"])[1] == "1000"


def test_a_broken_setting_is_unknown() -> None:
    plan = Plan((), broken=(("mounts", GOOD, "[check.mounts] /a/%z"),))
    made = CheckRun(plan, NodeMemory())
    made.run()
    assert answer(made.ran[0]) == ("UNKNOWN", "[check.mounts] /a/%z")


def test_the_prologs_own_deadline_loses_no_answer_that_is_there() -> None:
    def expire(signum: int, frame: object) -> None:
        raise DeadlineError("over")

    plan = plan_checks({"good": GOOD, "slow": make_check(hang)}, make_context(), 30.0)
    made = CheckRun(plan, NodeMemory())
    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(DeadlineError):
            made.run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    found = {each.name: each.results[0] for each in made.ran}
    assert found["good"].answer == "OK"
    assert (found["slow"].answer, found["slow"].text) == ("UNKNOWN", "the prolog's time was over")


def test_no_process_and_no_descriptor_is_left() -> None:
    before, own = open_descriptors(), children()
    run(
        {"slow": make_check(hang), "good": GOOD, "odd": make_check(lambda context: os._exit(3))},
        0.3,
    )
    assert open_descriptors() <= before
    assert children() <= own


def test_nothing_planned_takes_no_time() -> None:
    made = CheckRun(Plan(()), NodeMemory())
    made.run()
    assert made.ran == []


def tell_pid(context: CheckContext) -> Any:
    return [result(facts={"pid": os.getpid(), "uid": os.getuid(), "budget_s": context.budget_s})]


def facts(ran: RanCheck) -> Any:
    return ran.results[0].facts


def test_checks_of_one_identity_share_a_child() -> None:
    roots = {name: make_check(tell_pid) for name in ("mounts", "arrays")}
    users = {name: make_check(tell_pid, identity="user") for name in ("space", "layout")}
    ran = run({**roots, **users})
    pids = {name: facts(each)["pid"] for name, each in ran.items()}
    assert pids["mounts"] == pids["arrays"] != os.getpid()
    assert pids["space"] == pids["layout"] != pids["mounts"]
    if os.geteuid() == 0:
        uids = {name: facts(each)["uid"] for name, each in ran.items()}
        assert uids == {"mounts": 0, "arrays": 0, "space": 5, "layout": 5}


def test_each_check_is_told_what_is_left_and_charged_what_it_used() -> None:
    def burn(context: CheckContext) -> Any:
        end_s = time.process_time() + 0.1
        while time.process_time() < end_s:
            pass
        return tell_pid(context)

    ran = run({"arrays": make_check(burn), "mounts": make_check(tell_pid)}, deadline_s=5.0)
    cpu_s = {name: each.cpu_s for name, each in ran.items()}
    assert (cpu_s["arrays"] or 0) >= 0.1 > (cpu_s["mounts"] or 0)
    assert facts(ran["mounts"])["budget_s"] < facts(ran["arrays"])["budget_s"] - 0.05


def test_a_check_that_the_alarm_catches_between_two_steps_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_checks({"good": GOOD, "slow": make_check(hang)}, make_context(), 30.0)
    made = CheckRun(plan, NodeMemory())
    finish = made._finish

    def caught(*_given: Any) -> None:
        monkeypatch.setattr(made, "_finish", finish)  # an alarm rings once
        raise DeadlineError("over")

    monkeypatch.setattr(made, "_finish", caught)
    with pytest.raises(DeadlineError):
        made.run()
    said = {each.name: answer(each) for each in made.ran}
    assert said == dict.fromkeys(("good", "slow"), ("UNKNOWN", "the prolog's time was over"))
