"""slowfs really delays, really breaks, says what it did, and leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.labs.mounts import mounted_at
from tests.labs.slowfs import REPOSITORY, SlowFs, SlowFsError, fuse_missing
from tests.labs.slowfs_settings import CacheMode, SlowFsSettings
from tests.labs.slowfs_xattrs import LEDGER, SETTINGS

pytestmark = [
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]

Mount = Callable[..., SlowFs]
READ = "import sys; sys.stdin.readline(); open(sys.argv[1], 'rb').read(); print('read')"
HOLD = """
import sys, time
from pathlib import Path
from tests.labs.slowfs import SlowFs
with SlowFs(Path(sys.argv[1]), Path(sys.argv[2])):
    print("mounted", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    """Makes mounts over ``backing`` (8 files of 4 KiB) that end with the test."""
    backing = tmp_path / "backing"
    backing.mkdir()
    for number in range(8):
        (backing / f"file{number}").write_bytes(os.urandom(4096))
    mounts: list[SlowFs] = []

    def make(cache: CacheMode = "direct", attr_timeout_s: float = 1.0, **settings: Any) -> SlowFs:
        slow = SlowFs(
            backing,
            tmp_path / "mount",
            SlowFsSettings(**settings),
            cache=cache,
            attr_timeout_s=attr_timeout_s,
        )
        mounts.append(slow)
        return slow.__enter__()

    yield make
    for slow in mounts:
        slow.__exit__(None, None, None)
    assert not mounted_at(tmp_path / "mount")


def wait_until(claim: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline_s = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.01)


def elapsed_ns(call: Callable[[], object]) -> int:
    start_ns = time.monotonic_ns()
    call()
    return time.monotonic_ns() - start_ns


def test_data_comes_through_unchanged_both_ways(mount: Mount) -> None:
    slow = mount()
    assert (slow.mountpoint / "file1").read_bytes() == (slow.backing / "file1").read_bytes()
    (slow.mountpoint / "new").write_bytes(b"x" * 3_000_000)
    with open(slow.mountpoint / "new", "ab") as file:
        file.write(b"end")
    assert (slow.backing / "new").read_bytes() == b"x" * 3_000_000 + b"end"
    (slow.mountpoint / "folder").mkdir()
    (slow.mountpoint / "new").rename(slow.mountpoint / "folder" / "moved")
    assert sorted(path.name for path in (slow.mountpoint / "folder").iterdir()) == ["moved"]


def test_the_ledger_accounts_for_the_time_a_reader_loses(mount: Mount) -> None:
    slow = mount(read_latency_s=0.03)
    paths = [slow.mountpoint / f"file{number}" for number in range(8)]
    measured_ns = elapsed_ns(lambda: [path.read_bytes() for path in paths])
    read = slow.ledger()["classes"]["read"]
    assert (read["count"], read["bytes"]) == (8, 8 * 4096)
    assert 8 * 30_000_000 <= read["delay_ns"] <= measured_ns
    assert slow.ledger()["delayed_wall_ns"] == read["delay_ns"]


def test_concurrent_readers_sleep_concurrently(mount: Mount) -> None:
    slow = mount(read_latency_s=0.2)
    paths = [slow.mountpoint / f"file{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Path.read_bytes, paths))
    ledger = slow.ledger()
    assert ledger["classes"]["read"]["delay_ns"] >= 8 * 200_000_000
    assert ledger["delayed_wall_ns"] < ledger["classes"]["read"]["delay_ns"] / 2


@pytest.mark.parametrize(
    ("op_class", "call"),
    [
        ("open", lambda path: os.close(os.open(path, os.O_RDONLY))),
        ("stat", lambda path: path.stat()),
        ("list", lambda path: os.listdir(path.parent)),  # noqa: PTH208
        ("statfs", lambda path: os.statvfs(path.parent)),
        ("write", lambda path: (path.parent / "new").write_bytes(b"x")),
    ],
)
def test_each_class_has_its_own_latency(
    mount: Mount, op_class: str, call: Callable[[Path], object]
) -> None:
    slow = mount(**{f"{op_class}_latency_s": 0.05})
    assert elapsed_ns(lambda: call(slow.mountpoint / "file0")) >= 50_000_000
    delayed = {name for name, entry in slow.ledger()["classes"].items() if entry["delay_ns"]}
    assert delayed == {op_class}


def test_fsync_is_delayed_apart_from_write(mount: Mount) -> None:
    slow = mount(fsync_latency_s=0.05)
    with open(slow.mountpoint / "new", "wb") as file:
        file.write(b"x")
        file.flush()
        assert elapsed_ns(lambda: os.fsync(file.fileno())) >= 50_000_000


def test_bandwidth_is_shared(mount: Mount) -> None:
    slow = mount(bandwidth_bytes_per_s=8 * 4096 / 0.4)
    paths = [slow.mountpoint / f"file{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        measured_ns = elapsed_ns(lambda: list(pool.map(Path.read_bytes, paths)))
    assert measured_ns >= 390_000_000


def test_one_glob_can_be_slower(mount: Mount) -> None:
    slow = mount(file_latency_s={"file[01]": 0.05})
    for number in range(4):
        (slow.mountpoint / f"file{number}").read_bytes()
    assert slow.ledger()["classes"]["read"]["delay_ns"] == pytest.approx(100e6, rel=0.5)


def test_an_evicted_file_is_slow_once_and_shows_no_blocks(mount: Mount) -> None:
    slow = mount(evicted_globs=("file3",), recall_latency_s=0.1, attr_timeout_s=0.0)
    file = slow.mountpoint / "file3"
    assert (file.stat().st_blocks, file.stat().st_size) == (0, 4096)
    assert elapsed_ns(file.read_bytes) >= 100_000_000
    assert file.stat().st_blocks > 0
    before_ns = slow.ledger()["classes"]["read"]["delay_ns"]
    file.read_bytes()
    assert slow.ledger()["classes"]["read"]["delay_ns"] == before_ns
    slow.change(recall_generation=1)
    assert file.stat().st_blocks == 0


def test_spikes_are_logged_with_their_windows(mount: Mount) -> None:
    slow = mount(spike_period_s=0.5, spike_duration_s=0.1, spike_latency_s=0.15)
    until_s = time.monotonic() + 1.2
    while time.monotonic() < until_s:
        (slow.mountpoint / "file0").read_bytes()
        time.sleep(0.02)
    ledger = slow.ledger()
    spikes = ledger["spikes"]
    assert len(spikes) >= 2
    assert all(spike["end_ns"] - spike["start_ns"] == 100_000_000 for spike in spikes)
    starts_ns = [spike["start_ns"] for spike in spikes]
    assert all((b - a) % 500_000_000 == 0 for a, b in pairwise(starts_ns))
    assert sum(spike["delay_ns"] for spike in spikes) == ledger["classes"]["read"]["delay_ns"]


def test_a_hang_lasts_until_it_is_released(mount: Mount) -> None:
    slow = mount(hang_globs=("file5",), hang_classes=("read",))
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit((slow.mountpoint / "file5").read_bytes)
        wait_until(lambda: slow.ledger()["asleep"] == 1)
        (slow.mountpoint / "file4").read_bytes()
        assert not stuck.done()
        slow.change(hang_globs=())
        assert len(stuck.result(10)) == 4096
    assert slow.ledger()["classes"]["hang"]["count"] == 1


def test_a_mount_that_answers_nothing_can_still_be_released_and_left(mount: Mount) -> None:
    slow = mount(hang_globs=("*",), attr_timeout_s=0.0)
    with ThreadPoolExecutor(2) as pool:
        calls: list[Future[Any]] = [
            pool.submit(os.stat, slow.mountpoint),
            pool.submit(os.statvfs, slow.mountpoint),
        ]
        wait_until(lambda: slow.ledger()["asleep"] >= 1)
        slow.change(hang_globs=())
        assert all(call.result(10) for call in calls)


def test_leaving_while_a_reader_hangs_frees_the_reader(mount: Mount) -> None:
    slow = mount(hang_globs=("file5",), hang_classes=("read",))
    with ThreadPoolExecutor(1) as pool:
        stuck = pool.submit((slow.mountpoint / "file5").read_bytes)
        wait_until(lambda: slow.ledger()["asleep"] == 1)
        slow.__exit__(None, None, None)
        assert isinstance(stuck.exception(10), OSError)


def test_a_full_file_system(mount: Mount) -> None:
    slow = mount(no_space=True)
    with pytest.raises(OSError, match="No space left") as caught:
        (slow.mountpoint / "new").write_bytes(b"x")
    assert caught.value.errno == errno.ENOSPC
    assert os.statvfs(slow.mountpoint).f_bavail == 0


def test_read_errors_hit_the_named_files_only(mount: Mount) -> None:
    slow = mount(read_error_globs=("file2",))
    with pytest.raises(OSError) as caught:
        (slow.mountpoint / "file2").read_bytes()
    assert caught.value.errno == errno.EIO
    assert (slow.mountpoint / "file1").read_bytes()
    assert slow.ledger()["classes"]["read"]["errors"] == 1


def test_extended_attributes_of_any_name(mount: Mount) -> None:
    slow = mount(xattrs={"file0": {"lustre.lov": "d00bd10b"}})
    file = slow.mountpoint / "file0"
    assert os.getxattr(file, "lustre.lov") == bytes.fromhex("d00bd10b")
    os.setxattr(slow.mountpoint / "file1", "lustre.lov", b"\xd0\x0b")
    os.setxattr(slow.mountpoint / "file1", "user.note", b"hello")
    assert os.listxattr(slow.mountpoint / "file1") == ["lustre.lov", "user.note"]
    (slow.mountpoint / "file1").rename(slow.mountpoint / "other")
    assert os.getxattr(slow.mountpoint / "other", "lustre.lov") == b"\xd0\x0b"
    with pytest.raises(OSError) as caught:
        os.getxattr(slow.mountpoint / "file2", "lustre.lov")
    assert caught.value.errno == errno.ENODATA


def test_the_root_carries_settings_and_ledger(mount: Mount) -> None:
    slow = mount()
    settings = json.dumps({"read_latency_s": 0.05}).encode()
    os.setxattr(slow.mountpoint, SETTINGS, settings)
    assert elapsed_ns((slow.mountpoint / "file0").read_bytes) >= 50_000_000
    assert json.loads(os.getxattr(slow.mountpoint, LEDGER))["classes"]["read"]["count"] == 1
    with pytest.raises(OSError, match="Invalid argument"):
        os.setxattr(slow.mountpoint, SETTINGS, b'{"no_such": 1}')


def test_page_cache_modes(mount: Mount) -> None:
    """direct asks for every read, kernel keeps the pages over an open."""
    slow = mount("kernel")
    for _ in range(3):
        (slow.mountpoint / "file0").read_bytes()
    assert slow.ledger()["classes"]["read"]["count"] == 1
    slow.__exit__(None, None, None)
    slow = mount("direct")
    for _ in range(3):
        (slow.mountpoint / "file0").read_bytes()
    assert slow.ledger()["classes"]["read"]["count"] == 3


@pytest.mark.parametrize(
    ("cache", "state", "wchans"),
    [
        ("direct", "S", {"request_wait_answer", "fuse_simple_request", "__fuse_simple_request"}),
        ("page", "D", {"folio_wait_bit_common", "wait_on_page_bit", "__folio_lock_killable"}),
    ],
)
def test_a_reader_sleeps_in_the_kernel(
    mount: Mount, cache: CacheMode, state: str, wchans: set[str]
) -> None:
    slow = mount(cache, hang_globs=("file5",), hang_classes=("read",))
    command = [sys.executable, "-c", READ, os.fspath(slow.mountpoint / "file5")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdin is not None
        reader.stdin.write(b"go\n")
        reader.stdin.flush()
        wait_until(lambda: slow.ledger()["asleep"] == 1)
        proc = Path("/proc") / str(reader.pid)
        found_state = (proc / "stat").read_text().rpartition(")")[2].split()[0]
        wchan = (proc / "wchan").read_text()
        slow.change(hang_globs=())
        assert reader.stdout is not None
        assert reader.stdout.read() == b"read\n"
    assert found_state == state
    if wchan == "0":
        pytest.skip("this kernel does not show wchan")
    assert wchan in wchans


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_other_users_can_read_a_mount_of_root() -> None:
    folder = Path(tempfile.mkdtemp(prefix="slowfs-test-"))  # pytest's own folders are 0700
    folder.chmod(0o755)
    backing = folder / "backing"
    backing.mkdir(parents=True)
    backing.chmod(0o777)
    (backing / "file").write_text("hello")
    try:
        with SlowFs(backing, folder / "mount") as slow:
            script = f"cat {slow.mountpoint}/file && echo mine > {slow.mountpoint}/new"
            done = subprocess.run(
                ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script],
                capture_output=True, text=True, timeout=20, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout, done.stderr) == (0, "hello", "")
            assert (backing / "new").stat().st_uid == 65534
    finally:
        assert not mounted_at(folder / "mount")
        shutil.rmtree(folder)


@pytest.mark.parametrize("victim", ["holder", "server"])
def test_a_killed_process_leaves_no_mount(tmp_path: Path, victim: str) -> None:
    mountpoint = tmp_path / "mount"
    command = [sys.executable, "-c", HOLD, os.fspath(tmp_path / "b"), os.fspath(mountpoint)]
    environment = os.environ | {"TMPDIR": os.fspath(tmp_path)}
    with subprocess.Popen(
        command, cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert mounted_at(mountpoint)
        server = int(subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(holder.pid)]))
        os.kill(holder.pid if victim == "holder" else server, signal.SIGKILL)
        # fusermount3 takes a killed server's mount away, when a busy machine lets it.
        wait_until(lambda: not mounted_at(mountpoint), seconds=60)
        wait_until(lambda: _is_gone(server))
        holder.kill()


def _is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_mount_that_cannot_be_says_why(tmp_path: Path) -> None:
    slow = SlowFs(tmp_path / "backing", tmp_path / "mount", source="x,no_such_option")
    with pytest.raises(SlowFsError, match="did not mount.*no_such_option"), slow:
        pass
    assert not mounted_at(tmp_path / "mount")


@pytest.mark.parametrize("obstacle", ["link", "content"])
def test_only_an_empty_folder_is_covered(tmp_path: Path, obstacle: str) -> None:
    mountpoint = tmp_path / "mount"
    if obstacle == "link":
        (tmp_path / "other").mkdir()
        mountpoint.symlink_to(tmp_path / "other")
    else:
        mountpoint.mkdir()
        (mountpoint / "file").touch()
    with pytest.raises(SlowFsError, match="empty folder|plain folder"):
        SlowFs(tmp_path / "backing", mountpoint).__enter__()
    assert not mounted_at(mountpoint)
    assert not mounted_at(tmp_path / "other")
