"""The prolog with its checks, as slurmd calls it: what it leaves for task prolog and report."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import load
from slurm_io.prolog import hook
from slurm_io.prolog.node_memory import FILE
from slurm_io.slurm.environment import read_environment
from slurm_io.slurm.hook_entry import DeadlineError, HookCall
from tests.labs.slurmd_room import SlurmdRoom

pytestmark = pytest.mark.root
LONELY = {"SLURM_NODELIST": "t1"}


def missing_mount(policy: str, extra: str = "") -> str:
    """Configuration under which this node lacks a mount."""
    return f"""
[check.mounts]
required = ["/nowhere/%n"]
policy = "{policy}"
{extra}"""


def checks_of(room: SlurmdRoom) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((room.spool() / "checks.json").read_text())
    return content


def test_a_healthy_node_says_nothing_and_the_report_gets_all(room: SlurmdRoom) -> None:
    room.write_config()
    assert room.prolog() == 0
    assert (room.runtime() / "message").read_text() == ""
    assert not (room.runtime() / "stop").exists()
    content = checks_of(room)
    assert (content["node"], content["leader"]) == ("t1", "t1")
    assert {each["check"] for each in content["checks"]} >= {"mounts"}
    for each in content["checks"]:
        assert each["answer"] in ("OK", "DEGRADED", "UNKNOWN"), each
        assert each["policy"]
        assert each["action"] in ("none", "record", "warn")
        assert each["wall_s"] > 0
    reasons = {each["check"]: each["reason"] for each in content["not_run"]}
    assert reasons["kernel_log"] == "switched off by the site"
    assert 0 < content["wall_s"] < 5
    assert not (room.root / "lib").exists(), "a healthy node needs no memory"


@pytest.mark.parametrize(
    ("policy", "told", "stops"),
    [("record", False, False), ("warn", True, False), ("stop", True, True)],
)
def test_policy_decides_what_follows(
    room: SlurmdRoom, policy: str, told: bool, stops: bool
) -> None:
    room.write_config(missing_mount(policy))
    assert room.prolog() == 0
    message = (room.runtime() / "message").read_text()
    assert ("slurm-io: mounts FAIL on t1: /nowhere/t1" in message) == told
    assert (room.runtime() / "stop").exists() == stops
    assert (room.runtime() / "hook_path").read_text() != ""
    assert "mounts FAIL" in room.log()


def test_without_the_sampler_checks_run_all_the_same(room: SlurmdRoom) -> None:
    room.write_config(missing_mount("stop"))
    room.prolog(SLURM_JOB_COMMENT="slurm-io: profile=off")
    assert (room.runtime() / "stop").exists()
    assert not (room.root / "spool").exists()


def test_a_site_may_have_no_checks(room: SlurmdRoom) -> None:
    room.write_config(missing_mount("stop", "[checks]\nenabled = false\n"))
    assert room.prolog() == 0
    assert not (room.runtime() / "stop").exists()
    assert checks_of(room)["checks"] == []


def test_other_nodes_of_the_job_leave_shared_data_to_the_first(room: SlurmdRoom) -> None:
    room.prolog(SLURM_NODELIST="t[0-3]", SLURMD_NODENAME="t1")
    assert checks_of(room)["leader"] == "t0"


def test_the_prologs_deadline_loses_neither_runtime_folder_nor_message(room: SlurmdRoom) -> None:
    """The whole prolog's time is over while checks run: what is known is published."""
    room.write_config(missing_mount("warn", "[checks]\ndeadline_s = 30\n"))
    config = (room.root / "config.toml").read_text()
    (room.root / "config.toml").write_text(
        config.replace("[prolog]\n", "[prolog]\ndeadline_s = 0.5\n")
    )
    assert room.prolog() == 0
    assert (room.runtime() / "restart").exists()


def test_a_node_fault_is_handed_to_a_detached_process_that_finds_no_slurm(
    room: SlurmdRoom,
) -> None:
    room.write_config(missing_mount("drain"))
    began_s = time.monotonic()
    assert room.prolog(SLURM_CONF="/nonexistent/slurm.conf") == 0
    assert time.monotonic() - began_s < 4
    assert "t1 is faulty: nothing was started there" in (room.runtime() / "message").read_text()
    assert "nothing drained: " in room.wait_for_log("nothing drained", 20)


def test_a_detached_drain_holds_nothing_of_slurmds(room: SlurmdRoom) -> None:
    room.write_config(missing_mount("drain"))
    reader, writer = os.pipe()
    room.hook("slurm_io.prolog.hook", pass_fds=(writer,), SLURM_CONF="/nonexistent/slurm.conf")
    os.close(writer)
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_after_the_guard_spoke_the_next_jobs_only_get_a_warning(room: SlurmdRoom) -> None:
    room.write_config(missing_mount("drain"))
    folder = room.root / "lib" / "t1"
    folder.mkdir(parents=True)
    memory = {"open": {"mounts": int(time.time()) + 100}}
    (folder / FILE).write_text(json.dumps(memory))
    assert room.prolog() == 0
    assert not (room.runtime() / "stop").exists()
    assert "mounts FAIL on t1" in (room.runtime() / "message").read_text()
    for until_s in (int(time.time()) - 1, int(time.time()) + 10**8):  # written by a wrong clock
        (folder / FILE).write_text(json.dumps({"open": {"mounts": until_s}}))
        room.prolog(SLURM_CONF="/nonexistent/slurm.conf")
        assert (room.runtime() / "stop").exists()


SPECS = [
    "slurm-io: dataset=nowhere",
    "slurm-io: dataset=/etc/shadow",
    "slurm-io: ckpt=/proc/1/root/etc",
    "slurm-io: ckpt=/dev/zero",
    "slurm-io: ckpt=/proc/self/fd/0",
    "slurm-io: ckpt=/" + "a/" * 500,
    "slurm-io: ckpt=/" + "a" * 1000,
    "slurm-io: " + "\xff\x00"[:1] * 2000,
    "slurm-io: dataset=c4@" + "0" * 128,
    "slurm-io: tier=local ckpt=/etc check=hold",
]


@pytest.mark.parametrize("comment", SPECS)
def test_whatever_a_job_asks_for_the_node_stays_and_the_prolog_is_short(
    room: SlurmdRoom, comment: str
) -> None:
    began_s = time.monotonic()
    assert room.prolog(SLURM_JOB_COMMENT=comment) == 0
    assert time.monotonic() - began_s < 5
    message = (room.runtime() / "message").read_text()
    assert len(message.splitlines()) <= 20
    assert all(line.isprintable() and len(line) < 400 for line in message.splitlines())
    content = checks_of(room)
    assert not [each for each in content["checks"] if each["action"] == "drain"]
    for each in content["checks"]:
        assert "malformed" not in each["text"], each
        assert not (each["answer"] == "FAIL" and each["kind"] == "node"), each


def test_a_fifo_as_checkpoint_folder_delays_nobody(room: SlurmdRoom) -> None:
    fifo = room.root / "fifo"
    os.mkfifo(fifo, 0o666)
    began_s = time.monotonic()
    assert room.prolog(SLURM_JOB_COMMENT=f"slurm-io: ckpt={fifo}") == 0
    assert time.monotonic() - began_s < 4


@pytest.mark.parametrize("changes", [
    {"SLURM_JOB_UID": "4000111", "SLURM_JOB_GID": "4000222", "SLURM_JOB_USER": "gone"},
    {"SLURM_JOB_UID": "0", "SLURM_JOB_GID": "0", "SLURM_JOB_USER": "root"},
])  # fmt: skip
def test_a_job_of_nobody_or_of_root_is_checked_like_others(
    room: SlurmdRoom, changes: dict[str, str], tmp_path: Path
) -> None:
    assert room.prolog(SLURM_JOB_COMMENT=f"slurm-io: ckpt={tmp_path}", **changes) == 0
    assert {each["check"] for each in checks_of(room)["checks"]} >= {"mounts"}
    assert "Traceback" not in room.log()


def test_a_deadline_in_the_midst_of_the_checks_still_publishes(
    room: SlurmdRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(self: object) -> None:
        raise DeadlineError("not done after 3 s")

    monkeypatch.setattr(hook.Preparation, "run_checks", over)
    config = room.write_config("enabled = false")
    call = HookCall(read_environment(room.environment()), load(str(config)), str(config))
    with pytest.raises(DeadlineError):
        hook.prepare(call)
    assert (room.runtime() / "restart").read_text() == "0\n"
    assert (room.runtime() / "message").read_text() == ""
