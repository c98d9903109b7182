"""The prolog as slurmd sees it: exit code 0 whatever happens, a root process nobody can abuse."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from slurm_io.model import SamplerSpec
from tests.labs.cluster_parts import is_running
from tests.labs.slurmd_room import SlurmdRoom

pytestmark = pytest.mark.root


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_the_folders_are_as_the_contract_says(room: SlurmdRoom) -> None:
    assert room.prolog() == 0
    runtime, spool = room.runtime(), room.spool()
    assert (runtime / "restart").read_text() == "0\n"
    assert (runtime / "message").read_text() == ""
    assert not (runtime / "stop").exists()
    attach = Path((runtime / "hook_path").read_text().strip())
    assert (attach / "sitecustomize.py").is_file()
    assert (mode(runtime), runtime.lstat().st_uid) == (0o755, 0)
    assert (mode(runtime / "ring"), (runtime / "ring").lstat().st_uid) == (0o700, room.uid)
    # It names the user's paths and datasets.
    assert (mode(runtime / "message"), (runtime / "message").lstat().st_uid) == (0o400, room.uid)
    assert (mode(spool), spool.lstat().st_uid) == (0o700, 0)
    assert [mode(spool.parents[level]) for level in range(3)] == [0o711] * 3


def test_the_sampler_is_told_the_job_and_the_sites_rates(room: SlurmdRoom) -> None:
    room.write_config("waits_hz = 4")
    room.prolog(SLURM_JOB_RESTART_COUNT="3")
    spec = SamplerSpec.from_dict(json.loads((room.spool("7.3") / "sampler.json").read_text()))
    assert (spec.job.key(), spec.node, spec.mode, spec.waits_hz) == ("7.3", "t1", "slurm", 4.0)
    assert (spec.spool, spec.ring_dir) == (str(room.spool("7.3")), str(room.runtime() / "ring"))


def test_the_sampler_is_told_which_gpus_slurmd_gave_the_job(room: SlurmdRoom) -> None:
    room.prolog(SLURM_JOB_GPUS="0,2-3", CUDA_VISIBLE_DEVICES="0,2,3")
    spec = SamplerSpec.from_dict(json.loads((room.spool() / "sampler.json").read_text()))
    assert spec.gpus == "SLURM_JOB_GPUS=0,2-3"


def test_the_sampler_is_told_the_name_of_the_jobs_group_from_26_05_on(room: SlurmdRoom) -> None:
    room.write_config()
    assert room.prolog(SLURM_JOB_SLUID="s5K1KKYAYG5D00") == 0
    spec = SamplerSpec.from_dict(json.loads((room.spool() / "sampler.json").read_text()))
    assert spec.sluid == "s5K1KKYAYG5D00"


def test_the_sampler_lives_apart_from_slurmd(room: SlurmdRoom) -> None:
    room.prolog()  # returns only once nobody holds the hook's stdout any more
    pid = room.sampler_pid()
    assert is_running(pid), (room.spool() / "sampler.log").read_text()
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    names = {line.split("=")[0] for line in environment_of(pid)}
    own = {"MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "SLURM_IO_SET_MALLOC"}
    assert names <= {"PATH", "LC_ALL", "SLURM_CONF", "SLURMD_NODENAME", "LC_CTYPE"} | own


def test_a_descriptor_that_slurmd_left_open_ends_with_the_hook(room: SlurmdRoom) -> None:
    reader, writer = os.pipe()
    room.hook("slurm_io.prolog.hook", pass_fds=(writer,))
    os.close(writer)
    assert is_running(room.sampler_pid())
    assert os.read(reader, 1) == b"", "the sampler holds the pipe"
    os.close(reader)


def test_a_caller_that_ignores_dead_children_makes_nobody_below_do_so(room: SlurmdRoom) -> None:
    """Else a child's pid is free for strangers before it is waited for, and root kills by pid."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        room.prolog()
    finally:
        signal.signal(signal.SIGCHLD, before)
    status = Path(f"/proc/{room.sampler_pid()}/status").read_text()
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert not ignored >> (signal.SIGCHLD - 1) & 1


def environment_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/environ").read_text().split("\0")[:-1]


def test_a_second_prolog_of_the_same_run_starts_no_second_sampler(room: SlurmdRoom) -> None:
    room.prolog()
    room.wait_for_sampler()
    first = room.sampler_pid()
    assert room.prolog() == 0
    assert room.sampler_pid() == first
    assert "sampler already runs" in room.log()


def test_a_requeued_job_gets_folders_of_its_own(room: SlurmdRoom) -> None:
    room.prolog()
    (room.runtime() / "ring" / "ring-1-1").write_bytes(b"of the first run")
    room.prolog(SLURM_JOB_RESTART_COUNT="1")
    assert (room.runtime() / "restart").read_text() == "1\n"
    assert not list((room.runtime() / "ring").iterdir())
    assert room.spool("7.0").is_dir()
    assert room.spool("7.1").is_dir()


def test_profile_off_starts_nothing(room: SlurmdRoom) -> None:
    room.prolog(SLURM_JOB_COMMENT="slurm-io: profile=off")
    assert not (room.root / "spool").exists()
    assert (room.runtime() / "hook_path").read_text() == ""


def test_a_malformed_comment_is_a_message_and_the_job_is_profiled(room: SlurmdRoom) -> None:
    assert room.prolog(SLURM_JOB_COMMENT="slurm-io: tier=ssd") == 0
    message = (room.runtime() / "message").read_text()
    assert "tier must be local or shared, not 'ssd'" in message
    assert message.count("\n") == 1
    assert not (room.runtime() / "stop").exists()
    assert (room.spool() / "sampler.json").exists()
    checks = json.loads((room.spool() / "checks.json").read_text())
    assert checks["complaints"]
    assert checks["request"] == {}


@pytest.mark.parametrize(
    ("policy", "message", "stops"), [("record", False, False), ("stop", True, True)]
)
def test_policy_decides_what_follows_from_a_malformed_request(
    room: SlurmdRoom, policy: str, message: bool, stops: bool
) -> None:
    room.write_config(f'[policy]\nbad_request = "{policy}"')
    assert room.prolog(SLURM_JOB_COMMENT="slurm-io: tier=ssd") == 0
    assert bool((room.runtime() / "message").read_text()) == message
    assert (room.runtime() / "stop").exists() == stops


def test_later_sources_win_over_the_partitions_defaults(room: SlurmdRoom) -> None:
    room.write_config('[partition.main]\ncheck = "warn"\ntier = "shared"')
    room.prolog(
        SLURM_JOB_COMMENT="slurm-io: tier=local",
        SLURM_JOB_EXTRA="slurm-io: price=2",
        SPANK_SLURM_IO="price=3",
    )
    checks = json.loads((room.spool() / "checks.json").read_text())
    assert checks["request"] == {"tier": "local", "price_usd_h": 3.0, "check": "warn"}


COMMENTS = [
    "slurm-io: tier=local\nexport PATH=/evil",
    "slurm-io: \x1b]0;owned\x07",
    "slurm-io: " + "x" * 100_000,
    "slurm-io: ckpt=/a%0aprint%20owned",
    "slurm-io: $(touch /tmp/owned)",
    "slurm-io: silence=../../../etc/passwd",
]


@pytest.mark.parametrize("comment", COMMENTS)
def test_a_hostile_comment_becomes_one_harmless_line(room: SlurmdRoom, comment: str) -> None:
    assert room.prolog(SLURM_JOB_COMMENT=comment) == 0
    message = (room.runtime() / "message").read_text()
    assert message.endswith("\n")
    assert message[:-1].isprintable()
    assert len(message) < 400
    assert all(line.isprintable() for line in room.log().splitlines())


@pytest.mark.parametrize("job", ["../../../../tmp/x", "7/..", "", "7\n8", "seven", "-1"])
def test_a_job_id_that_is_no_number_touches_nothing(room: SlurmdRoom, job: str) -> None:
    assert room.prolog(SLURM_JOB_ID=job) == 0
    assert "SLURM_JOB_ID" in room.log()
    assert not (room.root / "run").exists()
    assert not (room.root / "spool").exists()


def test_a_task_that_is_no_job_of_slurms_is_prepared_nothing(room: SlurmdRoom) -> None:
    """srun --no-allocate: no epilog would end its sampler or remove its folders."""
    assert room.prolog(SLURM_JOB_ID="4294924321") == 0
    assert "--no-allocate" in room.log()
    assert not (room.root / "run").exists()
    assert not (room.root / "spool").exists()


@pytest.mark.parametrize("user", ["DOM\\ada", "../../etc", "jörg", "a\nb", "x" * 10_000])
def test_an_odd_user_name_changes_no_path(room: SlurmdRoom, user: str) -> None:
    assert room.prolog(SLURM_JOB_USER=user) == 0
    assert room.spool().is_dir()


def test_a_runtime_folder_made_by_a_user_is_refused(room: SlurmdRoom) -> None:
    (room.root / "run").mkdir()
    os.chown(room.root / "run", room.uid, room.gid)
    assert room.prolog() == 0
    assert f"belongs to uid {room.uid}" in room.log()
    assert not list((room.root / "run").iterdir())


def test_a_link_in_place_of_the_nodes_folder_is_not_followed(room: SlurmdRoom) -> None:
    (room.root / "run").mkdir()
    victim = room.root / "victim"
    victim.mkdir()
    (room.root / "run" / "t1").symlink_to(victim)
    assert room.prolog() == 0
    assert not list(victim.iterdir())
    assert "gave up" in room.log()


def test_a_ring_folder_swapped_for_a_link_is_moved_aside_whole(room: SlurmdRoom) -> None:
    victim = room.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("kept")
    room.prolog()
    (room.runtime() / "ring").rmdir()
    (room.runtime() / "ring").symlink_to(victim)
    room.prolog(SLURM_JOB_RESTART_COUNT="1")
    assert not (room.runtime() / "ring").is_symlink()
    assert (victim / "precious").read_text() == "kept"
    assert victim.lstat().st_uid == 0


def test_a_writable_spool_is_refused_and_the_job_runs_unprofiled(room: SlurmdRoom) -> None:
    (room.root / "spool").mkdir()
    (room.root / "spool").chmod(0o777)
    assert room.prolog() == 0
    assert "can be written by others" in room.log()
    assert (room.runtime() / "hook_path").read_text() == ""
    assert not list((room.root / "spool").iterdir())


def test_a_broken_configuration_lets_the_job_start(room: SlurmdRoom) -> None:
    (room.root / "config.toml").write_text("spool_dri = 3")
    assert room.prolog() == 0
    assert not (room.root / "run").exists()


def test_a_log_that_is_a_link_is_not_followed(room: SlurmdRoom) -> None:
    victim = room.root / "victim"
    victim.write_text("kept")
    (room.root / "hooks.log").symlink_to(victim)
    assert room.prolog() == 0
    assert victim.read_text() == "kept"
    assert room.spool().is_dir()


def test_costs_no_more_than_its_budget(room: SlurmdRoom) -> None:
    """CPU of the second of two runs, children included; DESIGN 15 says 0.15 s."""
    before = os.times()
    room.prolog(SLURM_JOB_COMMENT="slurm-io: profile=off")
    after = os.times()
    used_s = (
        after.children_user - before.children_user + after.children_system - before.children_system
    )
    assert used_s < 1.0, "ten times the budget: something heavy is imported"
