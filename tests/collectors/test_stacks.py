"""The stacks collector: a real py-spy on a real loader, turns, costs, refusals, hostile answers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.collectors.base import Context, Member, StackWindows, Tick
from slurm_io.collectors.stacks import FIRST_WINDOW_S, RATE_HZ, WINDOW_S, StacksCollector
from slurm_io.collectors.stacks.answers import read_answer
from slurm_io.collectors.stacks.program import find_py_spy
from slurm_io.collectors.stacks.recording import (
    Order,
    join_cgroups,
    longest_s,
    owner_in,
    reason_of,
    record,
)
from slurm_io.collectors.stacks.targets import Rotation
from slurm_io.frames.table import load_table
from slurm_io.host.probe import Probe
from slurm_io.host.same_process import starttime_of
from slurm_io.store.schema import TABLES

PY_SPY = find_py_spy(os.environ.get("PATH"))
SECOND_NS = 1_000_000_000
TRAINING = """
import sys, time
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Samples(Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, index):
        time.sleep(0.15)
        return torch.zeros(2)
for batch in DataLoader(Samples(), batch_size=2, num_workers=1):
    print("ready", flush=True)
    time.sleep(0.1)
"""
SLEEPING = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.05)"


def member(
    pid: int, role: str = "rank", rank: int | None = 3, ppid: int = 1, comm: str = "python"
) -> Member:
    return Member(pid, starttime_of(pid) or 0, ppid, comm, rank, role)  # type: ignore[arg-type]


def context(members: list[Member], spool: Path, share: float = 0.5, **fields: Any) -> Context:
    return Context(
        proc_root=fields.pop("proc_root", Path("/proc")),
        sys_root=Path("/sys"),
        members=lambda: members,
        cgroup_paths=lambda: (),
        capacity_mounts=lambda: (),
        phase_of=lambda pid: ("none", None),
        stacks=StackWindows(share, spool, fields.pop("as_root", False)),
        **fields,
    )


@contextmanager
def running(script: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [options.pop("python", sys.executable), "-c", script],
        stdout=subprocess.PIPE,
        cwd="/",
        **options,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def tick(mono_ns: int | None = None) -> Tick:
    now_ns = time.monotonic_ns() if mono_ns is None else mono_ns
    return Tick(now_ns + 7, now_ns, SECOND_NS)


def rows_of_a_window(collector: StacksCollector, patience_s: float = 60) -> list[dict[str, Any]]:
    """Tick until a window was taken; its rows."""
    names = TABLES["stacks"].column_names()
    before, until = collector.facts()["windows"], time.monotonic() + patience_s
    while time.monotonic() < until:
        rows = collector.collect(tick())
        if collector.facts()["windows"] != before:
            return [dict(zip(names, row, strict=True)) for row in rows]
        time.sleep(0.2)
    raise AssertionError("no window ended")


needs_py_spy = pytest.mark.skipif(PY_SPY is None, reason="py-spy is not installed")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@needs_py_spy
@pytest.mark.torch
def test_a_loader_that_is_waited_for_is_seen_from_outside(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with running(TRAINING) as process:
        collector = StacksCollector()
        assert collector.open(context([member(process.pid)], tmp_path)).state == "on"
        rows = rows_of_a_window(collector) + rows_of_a_window(collector)
        facts = collector.facts()
        collector.close()
    assert facts["refused"] == {}, facts
    by_state: dict[str, int] = {}
    for row in rows:
        by_state[row["state"]] = by_state.get(row["state"], 0) + row["samples"]
        assert (row["rank"], row["pid"], row["role"]) == (3, process.pid, "rank")
        assert row["interval_ns"] == SECOND_NS and row["ts_ns"] - row["mono_ns"] == 7
        assert 0 <= row["certain"] <= row["samples"] <= RATE_HZ + 1
    # A batch takes 0.3 s to load and 0.1 s to train with: two thirds of the time are waited for.
    assert sum(by_state.values()) >= 12  # of 40; a busy machine costs some
    assert by_state["data_wait"] / sum(by_state.values()) > 0.3
    waits = [row for row in rows if row["state"] == "data_wait"]
    assert {row["sub"] for row in waits} <= {"workers", "receiving", None}
    assert all("__next__" in row["why"] for row in waits)
    assert any("dataloader.py" in row["folded"] for row in waits)
    assert isinstance(facts["cpu_s"], float) and 0 < facts["cpu_s"] < 1
    assert list(tmp_path.iterdir()) == [], "nothing is left in the spool"


@needs_py_spy
@as_root
@pytest.mark.root
def test_root_looks_at_a_users_process_as_that_user_only(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    uid = 54321
    with running(
        SLEEPING, python="/usr/bin/python3", user=uid, group=uid, extra_groups=[]
    ) as process:
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path, uid=uid))
        seen: set[int] = set()
        until = time.monotonic() + 60
        while not collector.facts()["windows"] and time.monotonic() < until:
            collector.collect(tick())
            seen |= uids_of_py_spy(process.pid)
            time.sleep(0.05)
        facts = collector.facts()
        collector.close()
    assert facts["refused"] == {} and facts["samples"], facts
    assert seen == {uid}, "py-spy ran as the user and as nobody else"
    assert facts["as_user"] == "the job's user"


def pids_of_py_spy(target: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith(b"/py-spy") and str(target).encode() in words:
            found.append(int(folder.name))
    return found


def uids_of_py_spy(target: int) -> set[int]:
    found = set()
    for pid in pids_of_py_spy(target):
        with contextlib.suppress(OSError):
            found.add(Path(f"/proc/{pid}").stat().st_uid)
    return found


@needs_py_spy
@as_root
@pytest.mark.root
def test_py_spy_runs_in_the_control_groups_of_its_target(tmp_path: Path) -> None:
    """Else a user who takes it over would be out of the job's limits and devices."""
    group = Path("/sys/fs/cgroup/freezer/slurm_io_test_stacks")
    if not group.parent.is_dir() or not os.access(group.parent, os.W_OK):
        pytest.skip("no freezer hierarchy of cgroup v1 that can be written to here")
    group.mkdir(exist_ok=True)
    uid, seen = 54321, set()
    try:
        with running(
            SLEEPING, python="/usr/bin/python3", user=uid, group=uid, extra_groups=[]
        ) as process:
            (group / "cgroup.procs").write_text(str(process.pid))
            collector = StacksCollector()
            collector.open(context([member(process.pid)], tmp_path, uid=uid))
            until = time.monotonic() + 60
            while not collector.facts()["windows"] and time.monotonic() < until:
                collector.collect(tick())
                for pid in pids_of_py_spy(process.pid):
                    with contextlib.suppress(OSError):
                        seen.add(str(pid) in (group / "cgroup.procs").read_text().split())
                time.sleep(0.05)
            facts = collector.facts()
            collector.close()
    finally:
        time.sleep(0.2)
        group.rmdir()
    assert facts["refused"] == {} and facts["samples"], facts
    assert seen == {True}


NOT_DUMPABLE = """
import ctypes, time
ctypes.CDLL(None).prctl(4, 0)
print("ready", flush=True)
time.sleep(600)
"""


@needs_py_spy
@as_root
@pytest.mark.root
def test_a_process_that_forbids_ptrace_is_refused_and_says_so(tmp_path: Path) -> None:
    uid = 54321
    with running(
        NOT_DUMPABLE, python="/usr/bin/python3", user=uid, group=uid, extra_groups=[]
    ) as process:
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path, uid=uid))
        assert rows_of_a_window(collector) == []
        facts = collector.facts()
        collector.close()
    assert facts["state"] == "partial"
    assert "the kernel refused" in str(facts["reason"]), facts


@needs_py_spy
@as_root
@pytest.mark.root
def test_another_users_process_is_refused(tmp_path: Path) -> None:
    with running(SLEEPING) as process:
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path, uid=54321))
        assert rows_of_a_window(collector) == []
        facts = collector.facts()
        collector.close()
    assert facts["refused"] == {"the process is not the job's user's": 1}
    assert facts["state"] == "partial" and "not the job's user's" in str(facts["reason"])


@needs_py_spy
def test_a_process_without_python_is_refused_and_left_alone_for_a_while(tmp_path: Path) -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        collector = StacksCollector()
        collector.open(context([member(process.pid, comm="sleep")], tmp_path))
        assert rows_of_a_window(collector) == []
        for _ in range(3):
            assert collector.collect(tick()) == []
            time.sleep(0.1)
        facts = collector.facts()
        collector.close()
    finally:
        process.kill()
        process.wait()
    assert facts["windows"] == 1
    assert facts["refused"] == {"py-spy found no Python that it knows": 1}


@needs_py_spy
def test_a_stopped_process_is_left_in_peace(tmp_path: Path) -> None:
    with running(SLEEPING) as process:
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path))
        start_ns = time.monotonic_ns()
        for second in range(8):
            assert collector.collect(tick(start_ns + second * SECOND_NS)) == []
        state = Path(f"/proc/{process.pid}/stat").read_text().split()[2]
        facts = collector.facts()
        collector.close()
    assert (state, facts["windows"], facts["continued"]) == ("T", 0, 0)


@needs_py_spy
def test_only_a_target_that_stands_alone_after_a_window_that_failed_is_continued(
    tmp_path: Path,
) -> None:
    with running(SLEEPING) as target, running(SLEEPING) as other:
        for others_too, continued in ((True, 0), (False, 1)):
            collector = StacksCollector()
            collector.open(context([member(target.pid), member(other.pid)], tmp_path))
            start_ns = time.monotonic_ns()
            collector.collect(tick(start_ns))
            collector.collect(tick(start_ns + 3 * SECOND_NS))
            target.send_signal(signal.SIGSTOP)
            if others_too:  # scontrol suspend stops them all
                other.send_signal(signal.SIGSTOP)
            time.sleep(0.2)
            collector.close()  # ends the window by force
            assert collector.facts()["continued"] == continued
            for process in (target, other):
                process.send_signal(signal.SIGCONT)
            time.sleep(0.1)


@needs_py_spy
def test_windows_keep_to_their_share(tmp_path: Path) -> None:
    with running(SLEEPING) as process:
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path, share=0.001))
        rows_of_a_window(collector)
        started_ns = time.monotonic_ns()
        cpu_s = collector.facts()["cpu_s"]
        assert isinstance(cpu_s, float)
        # Not before the last one is paid for, whatever the clock says until then.
        for second in (1, 3, 9):
            assert second < cpu_s / 0.001 - FIRST_WINDOW_S - 4
            collector.collect(tick(started_ns + second * SECOND_NS))
            assert collector._window is None
        collector.collect(tick(started_ns + int((cpu_s / 0.001 + 1) * SECOND_NS)))
        assert collector._window is not None
        collector.close()


MANY_THREADS = """
import threading, time
def deep(n):
    if n: deep(n - 1)
    else: time.sleep(600)
for _ in range(60):
    threading.Thread(target=deep, args=(20,), daemon=True).start()
print("ready", flush=True)
deep(3)
"""


@needs_py_spy
def test_a_process_of_many_threads_is_looked_at_less_often(tmp_path: Path) -> None:
    with running(MANY_THREADS) as process:
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path, share=1.0))
        first_hz, first_s = collector._pace("rank")
        assert (first_hz, first_s) == (RATE_HZ, FIRST_WINDOW_S)
        rows_of_a_window(collector)
        rate_hz, duration_s = collector._pace("rank")
        collector.close()
    assert 1 <= rate_hz < RATE_HZ and duration_s == WINDOW_S


@needs_py_spy
def test_the_end_of_the_sampler_waits_for_no_window(tmp_path: Path) -> None:
    with running(SLEEPING) as process:
        collector = StacksCollector()
        collector.open(context([member(process.pid)], tmp_path))
        start_ns = time.monotonic_ns()
        collector.collect(tick(start_ns))
        collector.collect(tick(start_ns + 3 * SECOND_NS))
        time.sleep(0.5)
        began_s = time.monotonic()
        collector.close()
        assert time.monotonic() - began_s < 0.9
        assert uids_of_py_spy(process.pid) == set(), "py-spy went with its child"
        assert process.poll() is None


def test_nobody_asked_is_no_gap(tmp_path: Path) -> None:
    quiet = Context(
        Path("/proc"), Path("/sys"), lambda: (), lambda: (), lambda: (), lambda pid: ("none", None)
    )
    assert StacksCollector().open(quiet).state == "absent"
    assert StacksCollector().open(context([], tmp_path, share=0.0)).state == "absent"


def test_without_py_spy_it_is_off_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_io.collectors.stacks.program.TOOL_FOLDERS", ())
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", str(tmp_path))
    told = StacksCollector().open(context([], tmp_path))
    assert told.state == "off" and "pip install py-spy" in told.reason


def test_a_py_spy_that_others_could_replace_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_io.collectors.stacks.program.TOOL_FOLDERS", ())
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    (tmp_path / "py-spy").write_text("#!/bin/sh\n")
    (tmp_path / "py-spy").chmod(0o755)
    tmp_path.chmod(0o755)
    assert find_py_spy(f"{tmp_path}:relative") == str(tmp_path / "py-spy")
    for mode in (0o777, 0o775, 0o644):
        (tmp_path / "py-spy").chmod(mode)
        assert find_py_spy(str(tmp_path)) is None
    (tmp_path / "py-spy").chmod(0o755)
    tmp_path.chmod(0o777)
    assert find_py_spy(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("scope", "as_root", "state"),
    [("0", False, "on"), ("1", False, "off"), ("2", False, "off"), ("3", True, "off")],
)
def test_yama_is_asked_before_anything_is_started(
    tmp_path: Path, scope: str, as_root: bool, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "slurm_io.collectors.stacks.program.find_py_spy", lambda path: "/usr/bin/py-spy"
    )
    (tmp_path / "sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "sys/kernel/yama/ptrace_scope").write_text(f"{scope}\n")
    told = StacksCollector().open(context([], tmp_path, proc_root=tmp_path, as_root=as_root))
    assert told.state == state
    assert state == "on" or f"Yama mode {scope}" in told.reason


@needs_py_spy
def test_an_order_that_the_child_cannot_carry_out_says_why(tmp_path: Path) -> None:
    """A dead target, and one that another process's pid hides."""
    with running(SLEEPING) as process:
        pid, born = process.pid, starttime_of(process.pid) or 0
        order = Order(pid, born + 1, str(PY_SPY), 1, 10, str(tmp_path), None, False, 0)
        assert record_in_child(order) == {"refused": "the process has ended"}
    order = Order(pid, born, str(PY_SPY), 1, 10, str(tmp_path), None, False, 0)
    assert record_in_child(order) == {"refused": "the process has ended"}


def record_in_child(order: Order) -> Any:
    probe = Probe([(record, (order, load_table()))], longest_s(order.duration_s))
    while not probe.finished:
        probe.wait(0.5)
        probe.poll()
    answer = probe.answers[0]
    assert answer is not None and answer.state == "ok", answer
    return answer.value


@needs_py_spy
def test_a_program_that_never_ends_is_ended(tmp_path: Path) -> None:
    stuck = tmp_path / "py-spy"
    stuck.write_text("#!/bin/sh\nexec sleep 60\n")
    stuck.chmod(0o755)
    with running(SLEEPING) as process:
        order = Order(
            process.pid,
            starttime_of(process.pid) or 0,
            str(stuck),
            0,
            10,
            str(tmp_path),
            None,
            False,
            0,
        )
        began_s = time.monotonic()
        assert "refused" in record_in_child(order)
        assert time.monotonic() - began_s < 9


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "Error: Permission Denied: Try running again with elevated permissions",
            "the kernel refused",
        ),
        (
            "Error: Failed to suspend\nReason: EPERM: Operation not permitted (os error 1)",
            "the kernel refused",
        ),
        ("Error: Unsupported version of Python: 3.15.0", "does not know this Python version"),
        (
            "Error: Failed to find python version from target process",
            "found no Python that it knows",
        ),
        ("error: \"chrometrace\" isn't a valid value for '--format <format>'", "too old"),
        ("Error: No such process (os error 3)", "the process has ended"),
        ("thread main panicked\nError: something new", "something new"),
        ("", "nothing"),
    ],
)
def test_what_py_spy_says_becomes_one_line(said: str, reason: str) -> None:
    told = reason_of(said, 1)
    assert reason in told and "\n" not in told and len(told) <= 200


def test_the_identity_of_a_target_is_whole_or_none() -> None:
    status = "Name:\tpython\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t8 9 \n"
    owner = owner_in(status)
    assert owner is not None and (owner.uid, owner.gid, owner.groups) == (7, 8, (8, 9))
    assert owner_in(status.replace("Uid:\t7\t7", "Uid:\t7\t0")) is None, "a setuid program"
    assert owner_in(status.replace("Gid:\t8\t8", "Gid:\t8\t0")) is None
    assert owner_in("Name:\tx\n") is None


def test_control_groups_are_entered_by_the_targets_own_words(tmp_path: Path) -> None:
    """v1 and v2 trees made up: the child writes itself into each group that it is not in yet."""
    root = tmp_path / "fs/cgroup"
    for name in ("devices", "cpu,cpuacct", "unified"):
        (root / name / "slurm/job_9").mkdir(parents=True)
        (root / name / "slurm/job_9/cgroup.procs").write_text("")
    (root / "unified/cgroup.controllers").write_text("")
    mine = Path("/proc/self/cgroup").read_text().splitlines()
    text = "5:devices:/slurm/job_9\n4:cpuacct,cpu:/slurm/job_9\n3:nothere:/x\n2:name=systemd:/y\n"
    text += "0::/slurm/job_9\n"
    join_cgroups(text + "\n".join(mine), tmp_path)
    for name in ("devices", "cpu,cpuacct", "unified"):
        assert (root / name / "slurm/job_9/cgroup.procs").read_text() == "0"
    join_cgroups("5:devices:/../../../etc\n", tmp_path)
    (root / "devices/slurm/job_9/cgroup.procs").unlink()
    with pytest.raises(OSError, match="No such file"):
        join_cgroups("5:devices:/slurm/job_8\n", tmp_path)


GOOD = [10 * SECOND_NS, "rank", "data_wait", "workers", 5, 5, "f (a.py:1)", "a;b"]


def test_a_good_answer_is_taken() -> None:
    told = read_answer({"rows": [GOOD], "instants": 5, "torn": 1}, 9 * SECOND_NS, 15 * SECOND_NS)
    assert told.rows == (tuple(GOOD),) and (told.instants, told.torn, told.refused) == (5, 1, "")


@pytest.mark.parametrize(
    "changed",
    [
        {0: 10},
        {0: 10.0},
        {0: True},
        {0: 99 * SECOND_NS},
        {1: "root"},
        {2: "idle"},
        {2: None},
        {3: "x"},
        {4: -1},
        {4: 10**9},
        {5: None},
    ],
)
def test_a_row_that_cannot_be_is_no_row(changed: dict[int, object]) -> None:
    row = [changed.get(at, value) for at, value in enumerate(GOOD)]
    assert (
        read_answer({"rows": [row], "instants": 5, "torn": 0}, 9 * SECOND_NS, 15 * SECOND_NS).rows
        == ()
    )


def test_texts_of_an_answer_are_one_printable_line() -> None:
    row = [*GOOD[:6], "x" * 9999, "a\x1b[2J\n\ud800b"]
    told = read_answer({"rows": [row], "instants": 1, "torn": 0}, 9 * SECOND_NS, 15 * SECOND_NS)
    assert len(told.rows[0][6]) == 2000
    assert told.rows[0][7] == "a?[2J??b"
    assert "\n" not in read_answer({"refused": "a\nb"}, 0, 1).refused


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=9)
        | st.dictionaries(
            st.sampled_from(["rows", "refused", "instants", "torn", "x"]), inner, max_size=5
        )
    ),
    max_leaves=30,
)


@given(json_values)
def test_any_answer_is_rows_of_the_schema_or_a_refusal(value: object) -> None:
    told = read_answer(value, 0, 10 * SECOND_NS)
    assert told.refused or isinstance(value, dict)
    for cells in told.rows:
        assert isinstance(cells[0], int) and isinstance(cells[4], int)


def members(*rows: tuple[int, int, str, int | None, str]) -> list[Member]:
    return [Member(pid, 1, ppid, comm, rank, role) for pid, ppid, role, rank, comm in rows]  # type: ignore[arg-type]


def test_ranks_take_turns_and_every_third_window_is_a_workers() -> None:
    rotation = Rotation()
    rotation.update(
        members(
            (1, 0, "rank", 0, "p"),
            (2, 0, "rank", 1, "p"),
            (3, 1, "worker", 0, "p"),
            (4, 1, "worker", 0, "p"),
            (5, 1, "other", None, "cat"),
        )
    )
    turns = [target.pid for _ in range(12) if (target := rotation.next()) is not None]
    assert [pid for pid in turns if pid < 3] == [1, 2, 1, 2, 1, 2, 1, 2]
    assert turns[2::3] == [3, 4, 3, 4]


def test_those_who_refuse_are_passed_over() -> None:
    rotation = Rotation()
    rotation.update(members((1, 0, "rank", 0, "p"), (2, 0, "rank", 1, "p")))
    assert {target.pid for _ in range(5) if (target := rotation.next(frozenset({(1, 1)})))} == {2}
    assert rotation.next(frozenset({(1, 1), (2, 1)})) is None
