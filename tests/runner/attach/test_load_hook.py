"""The hook in ranks that run already: loaded, read, taken out, or refused in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_io.collectors.base import Member
from slurm_io.errors import HostError
from slurm_io.runner.attach import load_hook
from slurm_io.runner.attach.load_hook import load_into
from slurm_io.runner.attach.remote_exec import Caller, call, find_caller, python_version
from slurm_io.runner.attach.survey import Survey
from tests.hook.test_interpreters import FOUND
from tests.hook.test_late import stand_in
from tests.labs.cgroups import SlurmGroups, Version, groups_missing
from tests.runner.attach.trees import wait_until
from tests.sampler.ring_maker import starttime_of

LOOP = """
import os, sys, time
from torch.utils.data.dataloader import DataLoader

def come_by():  # what a Python of 3.14 does between two bytecodes
    try:
        with open("remote") as file:
            path = file.read()
        os.unlink("remote")
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), globals())
    except FileNotFoundError:
        pass

class Endless:
    def __iter__(self):
        while True:
            time.sleep(0.01)
            yield 1

print("trains", flush=True)
for _ in DataLoader(Endless()):
    if sys.argv[1] == "comes":
        come_by()
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Member]]:
    """Starts a training loop; as a rank of the sampler's."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(*words: str, python: str = sys.executable, **environment: str) -> Member:
        (tmp_path / "loop.py").write_text(textwrap.dedent(LOOP))
        process = subprocess.Popen(
            [python, "loop.py", *(words or ("comes",))],
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", **stand_in(tmp_path), **environment},
            stdout=subprocess.PIPE,
        )
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"trains\n"
        pid = process.pid
        return Member(pid, starttime_of(pid), os.getpid(), "python", 0, "rank", pid)

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands for sys.remote_exec on a Python that has none: the loop looks for a file by itself."""

    def drop(caller: Caller, pid: int, script: str) -> None:
        folder = Path(f"/proc/{pid}/cwd").readlink()
        (folder / ".remote").write_text(script)
        (folder / ".remote").rename(folder / "remote")

    monkeypatch.setattr(load_hook, "find_caller", lambda pid, uid: Caller(sys.executable))
    monkeypatch.setattr(load_hook, "call", drop)
    monkeypatch.setattr(load_hook, "_ANSWER_S", 2.0)


def seen(*members: Member, ring_dir: str | None = None) -> Survey:
    return Survey(members, members, ring_dir, {})


@pytest.mark.usefixtures("remote")
def test_it_records_into_a_folder_that_is_gone_afterwards(start: Callable[..., Member]) -> None:
    rank = start()
    inside = load_into(seen(rank), os.getuid())
    assert inside.notices == ()
    rings = Path(inside.rings)
    wait_until(lambda: list(rings.glob(f"ring-{rank.pid}-{rank.starttime}")))
    assert "/ring-" in Path(f"/proc/{rank.pid}/maps").read_text()
    assert inside.leave() == ()
    assert not Path(inside.base).exists()
    assert "/ring-" not in Path(f"/proc/{rank.pid}/maps").read_text()
    assert starttime_of(rank.pid) == rank.starttime


@pytest.mark.usefixtures("remote")
def test_a_rank_in_a_long_call_is_named_and_gets_a_script_that_stays(
    start: Callable[..., Member], tmp_path: Path
) -> None:
    rank = start("never")
    inside = load_into(seen(rank), os.getuid())
    assert (inside.rings, inside.base) == ("", "")
    (notice,) = inside.notices
    assert f"process {rank.pid} did not come to a point" in notice
    waiting = Path((tmp_path / "remote").read_text())
    assert waiting.exists() and waiting.name == "remote_leave.py"
    assert inside.leave() == ()


@pytest.mark.usefixtures("remote")
def test_the_script_that_stays_leaves_no_name_and_takes_the_hook_out(tmp_path: Path) -> None:
    script = load_hook._LEAVE_LATER.read_text()
    program = (
        "import sys, types\n"
        "late = types.ModuleType('slurm_io_hook.late')\n"
        "late.leave = lambda: print('left')\n"
        f"script = {script!r}\n"
        "before = dict(globals())\n"
        "exec(script)\n"
        "sys.modules['slurm_io_hook.late'] = late\n"
        "exec(script)\n"
        "print(set(globals()) - set(before), __doc__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "left\n{'before'} None\n"


@pytest.mark.usefixtures("remote")
def test_a_rank_that_ended_meanwhile_needs_nothing_taken_out(start: Callable[..., Member]) -> None:
    rank = start()
    inside = load_into(seen(rank), os.getuid())
    os.kill(rank.pid, 9)
    os.waitpid(rank.pid, 0)
    assert inside.leave() == ()
    assert not Path(inside.base).exists()


@pytest.mark.usefixtures("remote")
def test_the_users_switch_is_respected(start: Callable[..., Member]) -> None:
    inside = load_into(seen(start(SLURM_IO_HOOK="0")), os.getuid())
    assert inside.rings == ""
    assert "switched off there (SLURM_IO_HOOK=0)" in inside.notices[0]


def test_nothing_is_loaded_where_another_recording_has_its_hook(
    start: Callable[..., Member],
) -> None:
    inside = load_into(seen(start(), ring_dir="/dev/shm/other"), os.getuid())
    assert (inside.rings, len(inside.notices)) == ("", 1)
    assert "have the hook already" in inside.notices[0]


def test_no_rank_no_hook() -> None:
    assert load_into(seen(), os.getuid()).notices == ("no rank was found to load the hook into",)


def test_an_older_python_is_refused_once_with_what_to_do(start: Callable[..., Member]) -> None:
    older = [version for version in FOUND if version in ("3.10", "3.11", "3.12", "3.13")]
    if not older:
        pytest.skip("no Python from 3.10 to 3.13 on this machine")
    rank = start(python=FOUND[older[0]])
    assert python_version(rank.pid) == tuple(map(int, older[0].split(".")))
    inside = load_into(seen(rank), os.getuid())
    assert inside.rings == ""
    (notice,) = inside.notices
    assert notice == (
        f"process {rank.pid} runs Python {older[0]}: a hook can be loaded into a running process "
        "from 3.14 on; start the job under `slurm-io run` instead"
    )


def test_a_program_that_is_no_python_is_refused() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(HostError, match="is no Python whose version can be told"):
            find_caller(process.pid, os.getuid())
    finally:
        process.kill()
        process.wait()


def test_a_refusal_of_the_interpreter_is_one_line() -> None:
    with pytest.raises(HostError, match=r"process \d+ refuses: (?!Traceback)") as error:
        call(Caller(sys.executable), os.getpid(), "/nowhere.py")
    assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a mount namespace")
@pytest.mark.root
def test_a_process_with_file_systems_of_its_own_is_refused() -> None:
    process = subprocess.Popen(["unshare", "--mount", "sleep", "60"])
    try:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        member = Member(process.pid, starttime_of(process.pid), 1, "sleep", 0, "rank", process.pid)
        (notice,) = load_into(seen(member), os.getuid()).notices
        assert "file systems of its own (a container)" in notice
    finally:
        process.kill()
        process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root loads into another user's process")
@pytest.mark.root
def test_the_scripts_that_root_writes_cannot_be_changed_by_the_user() -> None:
    base = load_hook._make_folders(65534)
    try:
        assert (base.stat().st_uid, base.stat().st_mode & 0o777) == (0, 0o711)
        rings = base / "rings"
        assert (rings.stat().st_uid, rings.stat().st_mode & 0o777) == (65534, 0o700)
    finally:
        (base / "rings").rmdir()
        base.rmdir()


@pytest.mark.skipif("3.14" not in FOUND, reason="no Python 3.14 on this machine")
def test_sys_remote_exec_itself(start: Callable[..., Member]) -> None:
    rank = start("never", python=FOUND["3.14"])
    inside = load_into(seen(rank), os.getuid())
    assert inside.notices == ()
    wait_until(lambda: list(Path(inside.rings).glob("ring-*")))
    assert inside.leave() == ()
    assert "/ring-" not in Path(f"/proc/{rank.pid}/maps").read_text()


@pytest.mark.skipif("3.14" not in FOUND, reason="no Python 3.14 on this machine")
def test_a_python_that_was_told_to_take_no_scripts(start: Callable[..., Member]) -> None:
    rank = start("never", python=FOUND["3.14"], PYTHON_DISABLE_REMOTE_DEBUG="1")
    (notice,) = load_into(seen(rank), os.getuid()).notices
    assert "Remote debugging is not enabled" in notice


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_users_python_is_run_as_the_user_inside_his_jobs_groups(version: Version) -> None:
    missing = groups_missing(version)
    if missing is not None:
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a folder that the user can reach
        folder = Path(name)
        os.chown(folder, 65534, 65534)
        program = folder / "python3.14"
        program.write_text(f"#!/bin/sh\ncat /proc/self/cgroup >{folder}/groups\nid >{folder}/id\n")
        program.chmod(0o755)
        sleeper = subprocess.Popen(
            ["sleep", "60"], user=65534, group=65534, extra_groups=[65533], start_new_session=True
        )
        try:
            with SlurmGroups(version) as groups:
                groups.make("12", uid=65534)
                groups.put("12", sleeper.pid, uid=65534)
                try:
                    call(Caller(str(program), 65534), sleeper.pid, "/nowhere.py")
                    theirs = Path(f"/proc/{sleeper.pid}/cgroup").read_text()
                    assert (folder / "groups").read_text() == theirs
                    words = (folder / "id").read_text()
                    assert "uid=65534" in words and "65533" in words and "=0(" not in words
                    with pytest.raises(HostError, match="another user"):
                        call(Caller(str(program), 65532), sleeper.pid, "/nowhere.py")
                finally:
                    sleeper.kill()
                    sleeper.wait()
        finally:
            sleeper.kill()
            sleeper.wait()
