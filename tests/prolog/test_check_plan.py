"""Which checks run where: one leader, a job's own wishes, the site's switches."""

from __future__ import annotations

from slurm_io.prolog.check_plan import plan_checks
from slurm_io.prolog.checks.base import CHECKS as CHECKS_OF_THE_PROLOG
from slurm_io.prolog.election import jitter_share, leader_of
from slurm_io.records import replace
from slurm_io.spec import JobSpec
from tests.prolog.stand_ins import make_check, make_context, result

NODE = make_check(result())
SHARED = make_check(result(kind="shared"), kind="shared", scope="shared")
JOB = make_check(result(kind="job"), kind="job")
CHECKS = {"job": JOB, "node": NODE, "shared": SHARED}
NODES = ("t1", "t2", "t3")


def names(context: object) -> list[str]:
    return [each.name for each in plan_checks(CHECKS, context, 2.0).planned]  # type: ignore[arg-type]


def test_exactly_one_node_of_a_job_looks_at_shared_data() -> None:
    looking = [node for node in NODES if "shared" in names(make_context(nodes=NODES, node=node))]
    assert looking == ["t1"]


def test_the_others_say_who_did() -> None:
    plan = plan_checks(CHECKS, make_context(nodes=NODES, node="t3"), 2.0)
    assert plan.not_run == (("shared", "checked by t1"),)
    assert not any(each.context.leader for each in plan.planned)


def test_a_node_that_does_not_know_its_peers_looks_itself() -> None:
    assert leader_of((), "t9") == "t9"
    assert "shared" in names(make_context(nodes=(), node="t9"))


def test_check_off_leaves_the_nodes_own_checks() -> None:
    assert names(make_context(JobSpec(dataset="c4", check="off"))) == ["node"]


def test_a_job_that_names_nothing_has_nothing_of_its_own_to_check() -> None:
    assert names(make_context(JobSpec())) == ["node", "shared"]
    assert "job" in names(make_context(JobSpec(ckpt="/scratch/run")))


def test_the_site_may_switch_a_check_off() -> None:
    assert names(make_context(check={"node": {"enabled": False}})) == ["job", "shared"]


def test_only_shared_checks_start_late_and_each_node_at_its_own_moment() -> None:
    plan = plan_checks(CHECKS, make_context(), 2.0)
    delays = {each.name: each.delay_s for each in plan.planned}
    assert (delays["job"], delays["node"]) == (0.0, 0.0)
    assert 0 < delays["shared"] < 0.5
    shares = {jitter_share("7", f"t{number}") for number in range(100)}
    assert len(shares) > 90
    assert all(0 <= share <= 1 for share in shares)


def test_a_job_check_of_a_shared_dataset_waits_its_turn_and_one_of_a_local_does_not() -> None:
    for path, waits in (("shared", True), ("local", False)):
        context = make_context(dataset={"c4": {path: "/data/c4"}})
        planned = plan_checks({"job": JOB}, context, 2.0).planned[0]
        assert (planned.delay_s > 0) == waits


def test_nobody_waits_by_hand() -> None:
    plan = plan_checks(CHECKS, make_context(), 20.0, by_hand=True)
    assert {each.delay_s for each in plan.planned} == {0.0}
    assert {each.deadline_s for each in plan.planned} == {20.0}


def test_the_prologs_time_bounds_every_deadline() -> None:
    context = make_context(check={"node": {"deadline_s": 9.0}}, checks={"deadline_s": 1.5})
    plan = plan_checks(CHECKS, context, 4.0)
    assert {each.name: each.deadline_s for each in plan.planned} == {
        "job": 1.5,
        "node": 4.0,
        "shared": 1.5,
    }


def test_settings_are_filled_in_like_the_registrys_paths() -> None:
    own = {"required": ["/data/%n/%u", "100 %%"], "depth": 3, "deep": {"a": "%j"}}
    plan = plan_checks({"node": NODE}, make_context(check={"node": own}), 2.0)
    assert plan.planned[0].context.own == {
        "required": ["/data/t1/games", "100 %"],
        "depth": 3,
        "deep": {"a": "7"},
    }


def test_a_setting_that_cannot_be_filled_in_is_not_run_as_it_stands() -> None:
    plan = plan_checks({"node": NODE}, make_context(check={"node": {"path": "/a/%z"}}), 2.0)
    assert not plan.planned
    assert "%z is not one of" in plan.broken[0][2]


def test_the_budget_ends_before_the_deadline() -> None:
    planned = plan_checks({"node": NODE}, make_context(), 2.0).planned[0]
    assert 0 < planned.context_with_budget(0.5).budget_s < 1.5
    assert planned.context_with_budget(5.0).budget_s == 0.0


def test_a_check_without_anything_to_look_at_gets_no_child() -> None:
    idle = replace(NODE, applies=lambda context: bool(context.own))
    for tables, planned in (({}, []), ({"check": {"node": {"path": "/a"}}}, ["node"])):
        plan = plan_checks({"node": idle}, make_context(**tables), 2.0)  # type: ignore[arg-type]
        assert [each.name for each in plan.planned] == planned
        assert plan.not_run == (() if planned else (("node", "nothing to check"),))


def test_what_is_clear_from_the_wishes_alone_needs_no_child() -> None:
    every = CHECKS_OF_THE_PROLOG.discover()
    for spec, idle in (
        (JobSpec(), {"space"}),
        (JobSpec(ckpt="/c"), {"dataset", "layout", "residency"}),
        (JobSpec(dataset="c4"), {"checkpoint_layout"}),
        (JobSpec(dataset="c4", ckpt="/c"), set()),
    ):
        plan = plan_checks(every, make_context(spec), 2.0)
        assert {name for name, reason in plan.not_run if reason == "nothing to check"} == idle
