"""F13: what the look at the job's end says of its saves, and what may not be said."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rules.base import Answer
from slurm_io.analysis.similar import similar
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.rules.stores import Row, answer, healthy, job, text_of
from tests.analysis.stand_in import NS, StandInNode, StandInStore

RULE = "f13_incomplete_checkpoint"
FOLDER = "/scratch/ckpt"


def saved(step: int, state: str = "whole", **more: Any) -> Row:
    """One save as checkpoints.json has it."""
    torn = {"file": "__0_0.distcp", "text": "100 bytes, .metadata says 4196: cut short"}
    return {"path": f"{FOLDER}/step-{step}", "format": "dcp", "state": state,
            "problems": [torn] if state in ("broken", "unfinished") else [], "problem_count": 1,
            "notes": [], "step": step, "bytes": 10**9, "files": 9,
            "written_ts_ns": 1_760_000_000 * NS + step, "young": False,
            "returned": False, **more}  # fmt: skip


def looked(store: StandInStore, *saves: Row, after_s: float = 5.0, **more: Any) -> StandInStore:
    """`store` with the look's answer; the newest save first."""
    ends = [node.meta.get("end_ts_ns") for node in store.nodes.values()]
    series = {"path": FOLDER, "saves": list(saves), "pointers": [], "reason": None, **more}
    store.checkpoints = {"schema": 1, "looked_ts_ns": max(filter(None, ends)) + int(after_s * NS),
                         "folders": [series], "reason": None}  # fmt: skip
    return store


def judged(*saves: Row, after_s: float = 5.0, **more: Any) -> Answer:
    return answer(RULE, looked(job(healthy(300)), *saves, after_s=after_s, **more))


def test_a_broken_newest_one_names_the_one_to_fall_back_to() -> None:
    said = judged(saved(300, "broken"), saved(200), saved(100))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("bad", "proven")
    assert finding.title == f"the newest checkpoint in {FOLDER} is not whole"
    assert finding.where.files == (f"{FOLDER}/step-300",)
    assert f"resume from {FOLDER}/step-200" in finding.remedy
    assert "delete none" in finding.remedy
    assert "is broken: __0_0.distcp: 100 bytes" in text_of(said)
    assert "step 200, 1 GB, written 2025-10-09T" in text_of(said)
    assert "rm" not in " ".join(finding.commands).split()


def test_no_whole_one_at_all() -> None:
    said = judged(saved(300, "broken"), saved(200, "broken"))
    assert said.findings[0].severity == "bad"
    assert "look further back" in text_of(said)
    assert "none of the saves" in text_of(said)


def test_an_older_broken_one_is_less_bad() -> None:
    [finding] = judged(saved(300), saved(200, "broken")).findings
    assert (finding.severity, finding.confidence) == ("warn", "proven")
    assert "a later one is" in finding.title


def test_all_whole_is_quiet() -> None:
    said = judged(saved(300), saved(200))
    assert (said.state, said.reason) == ("quiet", "2 of 2 saves that were looked at are whole")


def test_a_young_unfinished_one_is_quiet_with_its_reason() -> None:
    said = judged(saved(300, "unfinished", young=True), saved(200))
    assert said.state == "quiet"
    assert f"{FOLDER}/step-300 may still have been written" in said.reason


@pytest.mark.parametrize(
    ("saves", "after_s"),
    [
        ((saved(300, "unfinished", young=True), saved(200)), 601),  # the job is long over
        ((saved(300), saved(200, "unfinished", young=True)), 5),  # a later one is whole
        ((saved(300, "unfinished", young=False), saved(200)), 5),  # nobody wrote for a while
    ],
)
def test_an_unfinished_one_that_nobody_goes_on_with(saves: tuple[Row, ...], after_s: float) -> None:
    [finding] = judged(*saves, after_s=after_s).findings
    assert finding.confidence == "likely"
    assert any(one.metric == "unfinished_files" for one in finding.evidence)


def test_nobody_looked() -> None:
    rank = healthy(300)
    assert answer(RULE, job(rank)).reason == "the job was not seen saving a checkpoint"
    rank.event("ckpt_save", 0.5, bytes=10**6, path=f"{FOLDER}/step-1.pt")
    said = answer(RULE, job(rank))
    assert said.state == "not enough evidence"
    assert "nobody looked" in said.reason


def test_a_request_that_names_a_folder_makes_the_lack_of_a_look_known() -> None:
    store = job(healthy(300))
    store.nodes["n1"].checks = {"request": {"ckpt": FOLDER}, "checks": []}
    assert answer(RULE, store).state == "not enough evidence"


def test_nothing_could_be_recognised() -> None:
    said = judged(saved(1, "unknown", format=None, notes=["no format that is known"]))
    assert said.state == "not enough evidence"
    assert "no format that is known" in said.reason
    assert judged(reason="no answer within 20 s").reason.endswith("no answer within 20 s")


def test_latest_names_one_that_is_not_whole() -> None:
    pointer = {"file": "latest", "names": "step-300", "exists": True}
    said = judged(saved(300, "broken"), saved(200), pointers=[pointer])
    assert "latest names step-300, which is not whole" in text_of(said)


def test_latest_names_one_that_is_gone() -> None:
    pointer = {"file": "latest", "names": "step-400", "exists": False}
    [finding] = judged(saved(300), pointers=[pointer]).findings
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert "leads to none" in finding.title
    young = saved(400, "unfinished", young=True)
    assert judged(young, saved(300), pointers=[pointer]).state == "quiet"


def test_megatron_without_its_progress_file() -> None:
    said = judged(saved(300, format="megatron"))
    assert "a restart begins at step 0" in text_of(said)
    there = {"file": "latest_checkpointed_iteration.txt", "names": "step-300", "exists": True}
    assert judged(saved(300, format="megatron"), pointers=[there]).state == "quiet"


def test_the_mount_is_named() -> None:
    store = job(healthy(300))
    store.nodes["n1"].meta["mounts"] = [
        {"mount": "/", "fstype": "ext4"}, {"mount": "/scratch", "fstype": "lustre"},
        {"mount": "/scratch2", "fstype": "nfs"},
    ]  # fmt: skip
    [finding] = answer(RULE, looked(store, saved(3, "broken"))).findings
    assert finding.where.mounts == ("/scratch",)


@pytest.mark.parametrize(
    ("saves", "more", "like"),
    [
        ((saved(3, "broken"), saved(2)), {}, ["lightning-torn-checkpoint"]),
        ((saved(3, "unfinished"),), {}, ["automodel-partial-folder-hang"]),
        ((saved(3, format="megatron"),), {}, ["verl-tracker-never-written"]),
        (
            (saved(3),),
            {"pointers": [{"file": "latest", "names": "x", "exists": False}]},
            ["kempner-latest-before-durable"],
        ),
    ],
)
def test_incidents_that_it_resembles(
    saves: tuple[Row, ...], more: dict[str, Any], like: list[str]
) -> None:
    [finding] = judged(*saves, **more).findings
    assert similar(finding, {}) == like


NONSENSE = [None, "x", [], 3, {}, {"schema": 2}, {"schema": 1}, {"schema": 1, "folders": "x"},
            {"schema": 1, "folders": [1, {"saves": [{}, 1, {"path": 7}], "pointers": "x"}]},
            {"schema": 1, "folders": [{"saves": [{"path": "/a", "state": "bro", "problems": 3,
             "step": 1e9, "bytes": -1, "written_ts_ns": 2**80, "young": "yes"}]}]}]  # fmt: skip


@pytest.mark.parametrize("told", NONSENSE, ids=repr)
def test_nonsense_is_as_if_not_there(told: object) -> None:
    store = job(healthy(300))
    store.checkpoints = told  # type: ignore[assignment]
    assert answer(RULE, store).state in ("quiet", "not enough evidence")


def test_a_hostile_file_reaches_no_terminal_and_no_shell() -> None:
    evil = saved(1, "broken", path=f"{FOLDER}/\x1b[31mstep; rm -rf ~\n$(reboot)" + "x" * 9999)
    [finding] = judged(*[evil] * 50, path="/\x1b]0;x\x07\n" + "y" * 9999).findings
    assert all(one.text.isprintable() for one in finding.evidence)
    assert finding.title.isprintable()
    assert len(finding.title) < 1000
    [command] = finding.commands
    assert command.startswith("ls -la --time-style=full-iso '/scratch/ckpt/")


def test_a_look_at_a_store_without_nodes() -> None:
    store = StandInStore(None, {"n1": StandInNode("n1", {"end_ts_ns": 1})}, ())
    picture = take_picture(looked(store, saved(1, "broken")), Thresholds())
    assert answer(RULE, picture.store).state == "fired"
