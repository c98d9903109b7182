"""The waits collector on real processes in known states."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.collectors.waits.judge import most_telling
from slurm_io.collectors.waits.reading import Classifier, Reading
from slurm_io.collectors.waits.syscalls import table_for
from slurm_io.collectors.waits.wchan import client_of, place_of
from slurm_io.store.schema import WAIT_CLASSES
from tests.collectors.real_process import member, running, shares, watch
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import CacheMode, SlowFsSettings

needs_fuse = pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
ptrace = pytest.mark.skipif(
    not Path("/proc/self/syscall").exists(), reason="this kernel has no /proc/PID/syscall"
)

INET = """
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
accepted = server.accept()
"""
STATES = {
    "sleeping": ("ready(); time.sleep(60)", "sleep"),
    "waiting for a lock": ("ready(); threading.Event().wait()", "lock"),
    "reading a pipe": ("r, w = os.pipe(); ready(); os.read(r, 1)", "pipe"),
    "polling a pipe": (
        "r, w = os.pipe(); p = select.poll(); p.register(r); ready(); p.poll()",
        "pipe",
    ),
    "in epoll": (
        "r, w = os.pipe(); p = select.epoll(); p.register(r); ready(); p.poll()",
        "pipe",
    ),
    "reading a Unix socket": ("a, b = socket.socketpair(); ready(); a.recv(1)", "pipe"),
    "polling a Unix socket": (
        "a, b = socket.socketpair(); a.settimeout(60); ready(); a.recv(1)",
        "pipe",
    ),
    "reading an inet socket": (INET + "ready(); client.recv(1)", "net"),
    "reading it as a file": (INET + "ready(); os.read(client.fileno(), 1)", "net"),
    "reading it with a time-out": (INET + "client.settimeout(60); ready(); client.recv(1)", "net"),
    "accepting": ("s = socket.create_server(('127.0.0.1', 0)); ready(); s.accept()", "pipe"),
    "burning CPU": ("ready()\nwhile True: pass", "cpu"),
    "waiting for a child": (
        "c = subprocess.Popen(['sleep', '60']); ready(); c.wait()",
        "other",
    ),
    "opening a fifo": ("os.mkfifo(sys.argv[1]); ready(); open(sys.argv[1])", "pipe"),
}


@ptrace
@pytest.mark.parametrize("name", STATES)
def test_a_process_counts_as_what_it_does(name: str, tmp_path: Path) -> None:
    script, expected = STATES[name]
    with running(script, tmp_path / "fifo") as pid:
        found = shares(watch([member(pid)], passes=12))
    assert found.get(expected, 0) >= 0.9, found


HOUSEKEEPING = """
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
thread(lambda: s.accept())
thread(threading.Event().wait)
"""
THREADS = {
    "a running thread behind a lock": (
        "thread(lambda: for_ever(lambda: None)); ready(); threading.Event().wait()",
        "cpu",
    ),
    "a downloading thread behind a lock": (
        INET + "thread(lambda: client.recv(1)); ready(); threading.Event().wait()",
        "net",
    ),
    "torch's housekeeping: a futex and an accept on a Unix socket": (
        HOUSEKEEPING + "r, w = os.pipe(); ready(); os.read(r, 1)",
        "pipe",
    ),
}


@ptrace
@pytest.mark.parametrize("name", THREADS)
def test_another_thread_speaks_for_a_main_thread_that_waits(name: str, tmp_path: Path) -> None:
    script, expected = THREADS[name]
    with running(script, tmp_path / "socket") as pid:
        found = shares(watch([member(pid)], passes=20))
    assert found.get(expected, 0) >= 0.8, found


@ptrace
def test_a_socket_that_never_moves_stops_speaking_for_a_worker() -> None:
    script = INET + "thread(lambda: client.recv(1)); ready(); threading.Event().wait()"
    with running(script) as pid:
        late = shares(watch([member(pid)], passes=200, pause_s=0.001))
    assert late["lock"] > 0.7, late


@ptrace
def test_a_rank_in_its_step_is_judged_by_its_main_thread_alone() -> None:
    script = "thread(lambda: for_ever(lambda: None)); ready(); threading.Event().wait()"
    with running(script) as pid:
        rank = member(pid, "rank")
        assert shares(watch([rank], passes=10, phase="step")).get("lock", 0) >= 0.9
        assert shares(watch([rank], passes=10, phase="data_wait")).get("cpu", 0) >= 0.8


READ_LOOP = """
def read():
    with open(sys.argv[1], "rb", buffering=0) as file:
        while file.read(1 << 17):
            pass
"""
FAULT_LOOP = """
def fault():
    with open(sys.argv[1], "rb") as file:
        data = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    return sum(data[at] for at in range(0, len(data), 4096))
"""
SEND_LOOP = """
def send():
    with open(sys.argv[1], "rb") as file, open("/dev/null", "wb") as null:
        while os.sendfile(null.fileno(), file.fileno(), None, 1 << 17):
            pass
"""
FOR_WRITING = "fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)\n"
STORAGE: dict[str, tuple[CacheMode, str]] = {
    "read, direct": ("direct", READ_LOOP + "ready(); for_ever(read)"),
    "read, page cache": ("page", READ_LOOP + "ready(); for_ever(read)"),
    "pool thread reads, main sleeps": (
        "direct",
        READ_LOOP + "thread(lambda: for_ever(read)); ready(); time.sleep(60)",
    ),
    "pool thread reads, main waits for a lock": (
        "page",
        READ_LOOP + "thread(lambda: for_ever(read)); ready(); threading.Event().wait()",
    ),
    "mmap": ("page", FAULT_LOOP + "ready(); for_ever(fault)"),
    "sendfile": ("direct", SEND_LOOP + "ready(); for_ever(send)"),
    "open": ("direct", "ready(); for_ever(lambda: os.close(os.open(sys.argv[1], os.O_RDONLY)))"),
    "stat": ("direct", "ready(); for_ever(lambda: os.stat(sys.argv[1]))"),
    "write": ("direct", FOR_WRITING + "ready(); for_ever(lambda: os.pwrite(fd, bytes(4096), 0))"),
    "fsync": ("direct", FOR_WRITING + "ready(); for_ever(lambda: os.fsync(fd))"),
}
SLOW = SlowFsSettings(
    read_latency_s=0.03,
    open_latency_s=0.02,
    stat_latency_s=0.02,
    write_latency_s=0.03,
    fsync_latency_s=0.03,
)


@ptrace
@needs_fuse
@pytest.mark.fuse
@pytest.mark.parametrize("name", STORAGE)
def test_a_wait_for_a_slow_file_system_is_storage_and_names_the_mount(
    name: str, tmp_path: Path
) -> None:
    cache, script = STORAGE[name]
    (tmp_path / "backing").mkdir()
    (tmp_path / "backing" / "shard.bin").write_bytes(bytes(2 << 20))
    mount = tmp_path / "mnt"
    with (
        SlowFs(tmp_path / "backing", mount, SLOW, cache=cache, attr_timeout_s=0),
        running(script, mount / "shard.bin") as pid,
    ):
        rows = watch([member(pid)], passes=40)
    assert shares(rows).get("storage", 0) >= 0.7, shares(rows)
    on_mount = [row for row in rows if row["mount"] == str(mount)]
    assert len(on_mount) == 1, rows
    storage = sum(row["n_storage"] for row in rows)
    assert on_mount[0]["n_storage"] >= 0.8 * storage, rows
    assert on_mount[0]["fstype"].startswith("fuse")
    assert on_mount[0]["wchan"]
    assert (on_mount[0]["n_fault"] > 0) == (name == "mmap")
    if name in ("read, direct", "read, page cache", "sendfile", "fsync", "write", "open", "stat"):
        assert on_mount[0]["path"] == str(mount / "shard.bin")


@ptrace
@needs_fuse
@pytest.mark.fuse
def test_a_grandchild_behind_a_pipe_speaks_for_the_worker(tmp_path: Path) -> None:
    (tmp_path / "backing").mkdir()
    (tmp_path / "backing" / "shard.bin").write_bytes(bytes(8 << 20))
    script = (
        "c = subprocess.Popen(['sh', '-c', 'cat \"$1\"; :', 'sh', sys.argv[1]], "
        "stdout=subprocess.PIPE)\n"
        "ready()\n"
        "while c.stdout.read(1 << 16): pass\n"
        "time.sleep(60)"
    )
    settings = SlowFsSettings(read_latency_s=0.05)
    with (
        SlowFs(tmp_path / "backing", tmp_path / "mnt", settings),
        running(script, tmp_path / "mnt" / "shard.bin") as pid,
    ):
        shell = _child_of(pid)
        cat = _child_of(shell)
        helpers = [member(p, "other", helper_of=pid) for p in (shell, cat)]
        rows = watch([member(pid), *helpers], passes=15)
    assert shares(rows).get("storage", 0) >= 0.7, rows
    assert {row["processes"] for row in rows} == {1}
    assert any(row["mount"] == str(tmp_path / "mnt") for row in rows)


@ptrace
@needs_fuse
@pytest.mark.fuse
def test_a_background_save_costs_a_data_wait_nothing(tmp_path: Path) -> None:
    (tmp_path / "backing").mkdir()
    script = FOR_WRITING + (
        "thread(lambda: for_ever(lambda: os.pwrite(fd, bytes(4096), 0)))\n"
        "ready(); threading.Event().wait()"
    )
    with (
        SlowFs(tmp_path / "backing", tmp_path / "mnt", SLOW),
        running(script, tmp_path / "mnt" / "ckpt.bin") as pid,
    ):
        rank = member(pid, "rank")
        in_wait = shares(watch([rank], passes=15, phase="data_wait"))
        in_save = shares(watch([rank], passes=15, phase="ckpt"))
    assert in_wait.get("storage", 0) == 0, in_wait
    assert in_save.get("storage", 0) >= 0.7, in_save


def _child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(200):
        words = children.read_text().split()
        if words:
            return int(words[0])
        time.sleep(0.01)
    raise AssertionError(f"{pid} has no child")


@ptrace
def test_rows_count_passes_and_processes_per_rank_and_phase() -> None:
    with running("ready(); time.sleep(60)") as one, running("ready(); time.sleep(60)") as two:
        rows = watch([member(one), member(two)], passes=5)
    assert len(rows) == 1
    row = rows[0]
    expected = {"rank": 3, "role": "worker", "phase": "data_wait", "mount": None}
    assert {name: row[name] for name in expected} == expected
    assert (row["passes"], row["processes"]) == (5, 2)
    assert sum(row[f"n_{name}"] for name in WAIT_CLASSES) == 10


@ptrace
def test_processes_outside_any_rank_are_looked_at_only_while_there_is_no_rank() -> None:
    with running("ready(); time.sleep(60)") as one, running("ready(); time.sleep(60)") as two:
        outsider = member(one, "other", rank_pid=None)
        assert [r["role"] for r in watch([outsider], passes=2)] == ["other"]
        both = watch([outsider, member(two, "rank")], passes=2)
    assert [row["role"] for row in both] == ["rank"]


@ptrace
def test_a_process_that_is_gone_counts_nothing() -> None:
    with running("ready(); time.sleep(60)") as pid:
        gone = member(pid)
    rows = watch([gone], passes=3)
    assert [(row["passes"], row["processes"]) for row in rows] == [(3, 0)]


AS_NOBODY = """
import os, time
from tests.collectors.real_process import *
os.setgid(65534)
os.setuid(65534)
collector = WaitsCollector()
collector.open(context([member(1)]))
collector.sample(time.monotonic_ns())
row = collector.collect(Tick(2, 1, 1))[0]
refused = row[TABLES["waits"].column_names().index("n_unknown")]
print(refused, collector.facts()["refused_reason"])
"""


@ptrace
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_refused_process_reads_unknown_and_the_facts_say_why() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    out = done.stdout
    assert out.startswith("1 /proc/PID/syscall"), out


class _Thread:
    def __init__(self, wchan: bytes) -> None:
        self.error_number: int | None = None
        self._wchan = wchan

    def wchan(self) -> bytes:
        return self._wchan


class _Fds:
    def __init__(self, kind: str | None) -> None:
        self._kind = kind

    def kind(self, pid: int, fd: int) -> Any:
        return self._kind

    def polled(self, pid: int, address: int, count: int) -> list[int]:
        return [7]


def _classify(syscall: bytes, wchan: bytes, fd_kind: str | None = "file") -> Reading:
    classifier = Classifier(table_for("x86_64"), _Fds(fd_kind))
    classifier.read(1, b"-1 0x0 0x0", _Thread(b"do_wait"))  # this kernel does name functions
    return classifier.read(1, syscall, _Thread(wchan))


@pytest.mark.parametrize(
    ("syscall", "wchan", "fd_kind", "expected"),
    [
        (b"-1 0x7ffd 0x7f0d\n", b"folio_wait_bit_common", None, "storage"),
        (b"-1 0x7ffd 0x7f0d\n", b"rwsem_down_read_slowpath", None, "lock"),
        (b"-1 0x7ffd 0x7f0d\n", b"0", None, "unknown"),
        # Woken between the two reads, the thread slept in that call all the same.
        (b"0 0x3 0x1 0x1\n", b"0", "file", "storage"),
        (b"0 0x3 0x1 0x1\n", b"0", "pipe", "pipe"),
        (b"0 0x3 0x1 0x1\n", b"0", "inet", "net"),
        (b"0 0x3 0x1 0x1\n", b"0", None, "unknown"),  # closed meanwhile
        (b"257 0xffffff9c 0x1\n", b"0", None, "storage"),
        (b"9 0x0 0x1\n", b"0", None, "unknown"),
        (b"16 0x3 0xc0\n", b"0", "other", "unknown"),
        (b"0 0x3 0x1 0x1\n", b"cl_sync_io_wait", "file", "storage"),
        (b"0 0x3 0x1 0x1\n", b"wait_woken", "inet", "net"),
        (b"0 0x3 0x1 0x1\n", b"a_client_nobody_knows", "file", "storage"),
        (b"0 0x3 0x1 0x1\n", b"a_client_nobody_knows", "pipe", "pipe"),
        (b"257 0xffffff9c 0x1\n", b"ldlm_completion_ast", None, "storage"),
        (b"257 0xffffff9c 0x1\n", b"rwsem_down_read_slowpath", None, "storage"),
        (b"262 0xffffff9c 0x1\n", b"rpc_wait_bit_killable", None, "storage"),
        (b"9 0x0 0x1\n", b"rwsem_down_write_slowpath", None, "lock"),
        (b"73 0x3 0x2\n", b"locks_lock_inode_wait", "file", "lock"),
        (b"73 0x3 0x2\n", b"request_wait_answer", "file", "storage"),
        (b"16 0x3 0xc0\n", b"os_acquire_rwlock", "gpu", "gpu"),
        (b"7 0x1 0x1 0x0\n", b"do_sys_poll", "gpu", "gpu"),
        (b"426 0x3 0x0\n", b"io_cqring_wait", None, "other"),
        (b"running\n", b"0", None, "cpu"),
    ],
)
def test_classes_follow_call_place_and_descriptor(
    syscall: bytes, wchan: bytes, fd_kind: str | None, expected: str
) -> None:
    assert _classify(syscall, wchan, fd_kind).wait_class == expected


def test_without_function_names_the_descriptor_decides() -> None:
    classifier = Classifier(table_for("x86_64"), _Fds("file"))
    assert classifier.read(1, b"0 0x3 0x1\n", _Thread(b"0")).wait_class == "storage"


def test_aarch64_numbers_differ() -> None:
    read, futex = table_for("aarch64")[b"63"], table_for("aarch64")[b"98"]
    assert (read.name, futex.name) == ("read", "futex")
    assert table_for("riscv64") == {}


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_line_of_the_kernel_breaks_the_reading(syscall: bytes, wchan: bytes) -> None:
    assert _classify(syscall, wchan).wait_class != ""


@pytest.mark.parametrize(
    ("wchan", "kind"),
    [
        ("request_wait_answer", "fuse"), ("nfs4_proc_getattr", "nfs"),
        ("rpc_wait_bit_killable", "nfs"), ("cl_sync_io_wait", "lustre"),
        ("ptlrpc_set_wait", "lustre"), ("ceph_mdsc_do_request", "ceph"),
        ("cxiWaitEventWait", "gpfs"), ("folio_wait_bit_common", None),
    ],
)  # fmt: skip
def test_clients_are_known_by_their_functions(wchan: str, kind: str | None) -> None:
    assert client_of(wchan) == kind
    assert place_of(wchan) == "storage"


def test_storage_beats_network_beats_cpu_among_the_others() -> None:
    main, cpu, net, storage = (Reading(name) for name in ("lock", "cpu", "net", "storage"))
    assert most_telling(main, [cpu, net, storage], "none", False) is storage
    assert most_telling(main, [cpu, net], "none", False) is net
    assert most_telling(main, [Reading("pipe")], "none", False) is main
