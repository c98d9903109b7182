"""What is refused before anything is started, and what srun is told."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from slurm_io.errors import HostError, SlurmError, StoreError, UsageError
from slurm_io.model import JobIdentity
from slurm_io.runner.attach import as_root, by_job, step
from slurm_io.runner.attach.by_job import chosen_nodes, identity_of, refuse_unless_running
from slurm_io.runner.attach.place import AttachOptions, open_store, read_store
from slurm_io.runner.attach.survey import ring_dir_named_by
from slurm_io.slurm.jobs import Job

JOB = Job(name="12", job_id="12", state="RUNNING", uid=1000, nodes=("n1", "n2", "n4"))
OPTIONS = AttachOptions(duration_s=30.0)
IDENTITY = JobIdentity("c", "12", 0, "u", os.getuid())


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        ("PENDING", "Resources", r"has not started \(PENDING: Resources\): attach when it runs"),
        ("CONFIGURING", "", "has not started"),
        ("SUSPENDED", "", "is suspended"),
        ("COMPLETED", "", r"is over \(COMPLETED\): `slurm-io report 12`"),
        ("COMPLETING", "", "is over"),
        ("TIMEOUT", "TimeLimit", "is over"),
    ],
)
def test_a_job_that_does_not_run_is_one_clear_line(state: str, reason: str, told: str) -> None:
    with pytest.raises(SlurmError, match=told):
        refuse_unless_running(replace(JOB, state=state, reason=reason))
    refuse_unless_running(JOB)


def test_nodes_are_all_or_those_asked_for_in_the_jobs_order() -> None:
    assert chosen_nodes(JOB, ()) == ("n1", "n2", "n4")
    assert chosen_nodes(JOB, ("n4", "n1")) == ("n1", "n4")
    with pytest.raises(UsageError, match=r"does not run on n\[3,5\]: it has n\[1-2,4\]"):
        chosen_nodes(JOB, ("n3", "n1", "n5"))


def test_somebody_elses_job_is_refused_with_who_could(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_job, "find_job", lambda given: replace(JOB, uid=0))
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    with pytest.raises(HostError, match="belongs to root: only root can attach to it"):
        by_job.attach_to_job("12", OPTIONS)


def test_srun_is_told_every_node_once_beside_the_jobs_own_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(step, "slurm_tool", lambda name: f"/usr/bin/{name}")
    words = step.command(JOB, ("n1", "n2", "n4"), Path("/s/out"), OPTIONS)
    assert {"--overlap", "--jobid=12", "--nodes=3", "--ntasks=3", "--ntasks-per-node=1"} <= set(
        words
    )
    assert "--nodelist=n[1-2,4]" in words
    assert words[-5:] == [
        sys.executable, "-m", "slurm_io.runner.attach.node_part", "/s/out", "30",
    ]  # fmt: skip
    hooked = step.command(JOB, ("n1",), Path("/s"), replace(OPTIONS, load_hook=True))
    assert hooked[-1] == "load-hook"
    both = step.command(JOB, ("n1",), Path("/s"), replace(OPTIONS, load_hook=True, stacks=True))
    assert both[-2:] == ["load-hook", "stacks"]
    component = replace(JOB, name="11+1", job_id="12", nodes=("n1",))
    assert {"--jobid=11", "--het-group=1"} <= set(
        step.command(component, ("n1",), Path("/s"), OPTIONS)
    )


def test_an_array_task_and_a_component_are_named_in_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(by_job, "cluster_name", lambda: "c")
    monkeypatch.setattr(by_job, "restart_count", lambda job: 2)
    monkeypatch.setattr(by_job, "users_words", lambda job: ("train", "/home/u"))
    task = identity_of(replace(JOB, name="9_4"))
    assert (task.job, task.array_job, task.array_task, task.restart) == ("12", "9", 4, 2)
    assert (task.name, task.work_dir) == ("train", "/home/u")
    component = identity_of(replace(JOB, name="11+1"))
    assert (component.het_job, component.het_component, component.nodes) == ("11", 1, JOB.nodes)


def test_a_store_that_nodes_join_is_opened_once_and_read_by_them(tmp_path: Path) -> None:
    store = open_store(tmp_path / "out", IDENTITY, ("n1", "n2"), OPTIONS)
    assert read_store(store) == (IDENTITY, ("n1", "n2"))
    with pytest.raises(UsageError, match="already holds a run"):
        open_store(tmp_path / "out", IDENTITY, ("n1", "n2"), OPTIONS)


@pytest.mark.parametrize("text", ['{"schema":1}', '{"attached":{},"job":{},"nodes_expected":[1]}'])
def test_a_node_part_takes_no_store_that_no_attach_opened(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(StoreError, match="no store that an attach has opened"):
        read_store(tmp_path)


def test_root_needs_to_know_which_node_it_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_root, "_host", lambda: "login1")
    with pytest.raises(HostError, match="none of the nodes of job 12.*--node"):
        as_root.attach_here(JOB, IDENTITY, OPTIONS)
    with pytest.raises(UsageError, match="one node at a time"):
        as_root.attach_here(JOB, IDENTITY, replace(OPTIONS, nodes=("n1", "n2")))


def test_the_ring_folder_most_processes_name_is_read_along() -> None:
    make = partial(tempfile.TemporaryDirectory, dir="/dev/shm")
    with make() as ours, make() as other:
        named = [{"SLURM_IO_RING_DIR": path} for path in (ours, other, ours)]
        assert ring_dir_named_by(named, os.getuid()) == ours
        Path(ours).rmdir()
        assert ring_dir_named_by(named, os.getuid()) == other
        Path(ours).mkdir()


def test_no_ring_folder_is_named_where_the_hook_is_off_or_the_folder_is_not_the_users(
    tmp_path: Path,
) -> None:
    off = {"SLURM_IO_RING_DIR": str(tmp_path), "SLURM_IO_HOOK": "0"}
    assert ring_dir_named_by([off], os.getuid()) is None
    assert ring_dir_named_by([{"SLURM_IO_RING_DIR": str(tmp_path)}], 4242) is None
    assert ring_dir_named_by([{"SLURM_IO_RING_DIR": str(tmp_path / "no")}], os.getuid()) is None
    link = tmp_path / "link"
    link.symlink_to("/usr")
    assert ring_dir_named_by([{"SLURM_IO_RING_DIR": str(link)}], 0) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="what only root must not do")
@pytest.mark.parametrize("path", ["/mnt/x", "/dev/shm/../../mnt/x", "relative", "/home/u/rings"])
def test_root_does_not_even_look_where_a_user_may_have_put_a_hanging_mount(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def touched(self: Path, *arguments: object) -> None:
        raise AssertionError(self)

    monkeypatch.setattr(Path, "lstat", touched)
    monkeypatch.setattr(Path, "is_dir", touched)
    assert ring_dir_named_by([{"SLURM_IO_RING_DIR": path}], 1000) is None
