"""Reading on in a job's output: from where one was, no more than asked, with the job's rights."""

from __future__ import annotations

import base64
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.host.job_output import Known, Piece, read_descriptor, read_path
from slurm_io.host.pidstat import parse_stat

NOBODY = 65534
RIGHTS = (NOBODY, NOBODY, ())


class Holder:
    """A process that has `path` as standard output and does nothing."""

    def __init__(self, path: Path | int) -> None:
        file = path if isinstance(path, int) else os.open(path, os.O_WRONLY | os.O_APPEND)
        self.process = subprocess.Popen(["sleep", "60"], stdout=file)
        if not isinstance(path, int):
            os.close(file)
        self.pid = self.process.pid
        stat = parse_stat(Path(f"/proc/{self.pid}/stat").read_bytes())
        assert stat is not None
        self.starttime = stat.starttime

    def read(
        self, known: Known | None = None, limit: int = 1000, uid: int | None = None
    ) -> tuple[Piece, bytes]:
        rights = RIGHTS if uid is not None else None
        piece = read_descriptor("/proc", self.pid, self.starttime, 1, rights, known, limit)
        return piece, base64.b64decode(piece[4])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "out.txt"
    path.write_bytes(b"0123456789")
    return path


@pytest.fixture
def holder(path: Path) -> Iterator[Holder]:
    holder = Holder(path)
    yield holder
    holder.process.kill()
    holder.process.wait()


@pytest.fixture
def root_only() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def identity(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def test_all_of_it_when_it_was_not_read_before(path: Path, holder: Holder) -> None:
    piece, data = holder.read()
    assert piece[:4] == (*identity(path), 10, 0)
    assert data == b"0123456789"


def test_from_where_one_was(path: Path, holder: Holder) -> None:
    assert holder.read((*identity(path), 4))[1] == b"456789"
    assert holder.read((*identity(path), 10))[1] == b""


def test_at_most_the_last_bytes(path: Path, holder: Holder) -> None:
    piece, data = holder.read(limit=3)
    assert (piece[3], data) == (7, b"789")
    assert holder.read((*identity(path), 4), limit=3)[1] == b"789"


def test_a_file_that_was_emptied_is_read_from_its_start(path: Path, holder: Holder) -> None:
    os.truncate(path, 2)
    piece, data = holder.read((*identity(path), 8))
    assert (piece[2], piece[3], data) == (2, 0, b"01")


def test_another_file_is_read_from_its_start(path: Path, holder: Holder) -> None:
    device, inode = identity(path)
    assert holder.read((device, inode + 1, 8))[1] == b"0123456789"


def test_a_deleted_file_is_read_by_the_descriptor(path: Path, holder: Holder) -> None:
    path.unlink()
    assert holder.read()[1] == b"0123456789"


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    ends = os.pipe()
    for file in (ends[1], os.open(tmp_path, os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)):
        holder = Holder(file)
        with pytest.raises(OSError, match="no regular file"):
            holder.read()
        holder.process.kill()
        holder.process.wait()
        os.close(file)
    os.close(ends[0])


def test_a_process_that_took_over_the_pid_is_not_read(holder: Holder) -> None:
    holder.starttime += 1
    with pytest.raises(OSError) as caught:
        holder.read()
    assert caught.value.errno == errno.ESRCH


def test_reading_leaves_no_trace_and_no_descriptor(path: Path, holder: Holder) -> None:
    os.utime(path, (1000, 2000))  # an access time that any ordinary read would bring up to date
    before, descriptors = path.stat(), open_descriptors()
    holder.read()
    after = path.stat()
    assert (after.st_atime_ns, after.st_mtime_ns) == (before.st_atime_ns, before.st_mtime_ns)
    assert open_descriptors() == descriptors


@pytest.mark.root
@pytest.mark.usefixtures("root_only")
class TestRights:
    def test_what_the_user_may_not_read_root_does_not_read_for_him(
        self, path: Path, holder: Holder
    ) -> None:
        """A process can be given a descriptor to write to a file that it may not read."""
        path.chmod(0o600)
        with pytest.raises(PermissionError):
            holder.read(uid=NOBODY)
        assert holder.read()[1] == b"0123456789"

    def test_what_only_the_user_may_read_is_read(self, path: Path, holder: Holder) -> None:
        path.chmod(0o600)
        os.chown(path, NOBODY, NOBODY)
        assert holder.read(uid=NOBODY)[1] == b"0123456789"

    def test_rights_come_back(self, path: Path, holder: Holder) -> None:
        groups = os.getgroups()
        holder.read(uid=NOBODY)
        path.chmod(0)
        with pytest.raises(PermissionError):
            holder.read(uid=NOBODY)
        assert (os.getresuid(), os.getresgid()) == ((0, 0, 0), (0, 0, 0))
        assert os.getgroups() == groups


class TestByName:
    def test_the_same_file(self, path: Path) -> None:
        piece = read_path(str(path), None, (*identity(path), 4), 1000)
        assert base64.b64decode(piece[4]) == b"456789"

    def test_another_file_under_the_name_is_not_read(self, path: Path) -> None:
        known = (*identity(path), 4)
        path.rename(path.with_name("old"))
        path.write_bytes(b"something else")
        with pytest.raises(OSError, match="another file"):
            read_path(str(path), None, known, 1000)

    def test_a_link_to_the_very_file_is_not_followed(self, path: Path) -> None:
        known = (*identity(path), 4)
        path.rename(path.with_name("old"))
        path.symlink_to("old")
        with pytest.raises(OSError, match="another file|symbolic"):
            read_path(str(path), None, known, 1000)

    def test_a_pipe_under_the_name_does_not_hold_us(self, path: Path) -> None:
        known = (*identity(path), 4)
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(OSError, match="another file|no regular file"):
            read_path(str(path), None, known, 1000)
