"""Many files at once: every system through its own source, and what attackers put in place."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.filesystems.residency import judge, lustre_hsm, weka
from slurm_io.filesystems.residency.answer import ResidencyAnswer
from slurm_io.filesystems.residency.base import SYSTEMS, Seen, Surroundings
from slurm_io.filesystems.residency.generic import BIG_BYTES, accuse
from slurm_io.filesystems.residency.judge import residency_of
from slurm_io.filesystems.residency.pinned import open_root
from slurm_io.host import run as host_run
from tests.filesystems.residency.stand_in_tools import install
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings

SAMPLES = Path(__file__).parents[2] / "fixtures" / "residency"
LONG_AGO_S = 1_000_000_000
needs_fuse = [
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def ask(root: Path, kind: Any, *paths: str) -> ResidencyAnswer:
    return residency_of(os.fspath(root), paths, kind, soon())


def counts(answer: ResidencyAnswer) -> dict[str, int]:
    return {state: count for state, count in answer.counts.items() if count}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with one file of each fate by its name."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a", "partial", "released", "released too"):
        (folder / name).write_bytes(b"x" * 1000)
    return folder


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs stand-ins, which are the only tools that are found."""
    monkeypatch.setattr(host_run, "TOOL_FOLDERS", (os.fspath(tmp_path / "bin"),))
    return lambda *arguments: install(tmp_path / "bin", *arguments)


ALL = ("a", "partial", "released", "released too")


def test_every_kind_of_file_system_has_one_system() -> None:
    kinds = [kind for system in SYSTEMS for kind in system.kinds]
    assert len(kinds) == len(set(kinds))
    assert set(kinds) == {
        "local", "nfs", "lustre", "gpfs", "beegfs", "weka", "ceph", "smb", "fuse", "overlay",
        "tmpfs", "pseudo", "other",
    }  # fmt: skip


def test_weka_by_its_tool(data: Path, tools: Callable[..., Path]) -> None:
    tools("weka")
    answer = ask(data, "weka", *ALL)
    assert counts(answer) == {"resident": 1, "partial": 1, "released": 2}
    assert (answer.missing_bytes, answer.source) == (2750, "weka fs tier location")
    assert answer.not_resident == ("released", "released too", "partial")
    assert answer.answer == "FAIL"
    names = f"{data}/released '{data}/released too' {data}/partial"
    assert answer.commands == (f"weka fs tier fetch {names}",)


def test_gpfs_by_its_tool(data: Path, tools: Callable[..., Path]) -> None:
    tools("mmlsattr")
    answer = ask(data, "gpfs", "a", "released")
    assert counts(answer) == {"resident": 1, "released": 1}
    assert (answer.missing_bytes, answer.source, answer.answer) == (1000, "mmlsattr", "FAIL")
    assert ask(data, "gpfs", "a").answer == "OK"


def test_lustre_by_lfs_where_the_client_cannot_tell(data: Path, tools: Callable[..., Path]) -> None:
    tools("lfs")
    answer = ask(data, "lustre", *ALL)
    assert counts(answer) == {"resident": 2, "released": 2}
    assert answer.source == "lfs hsm_state"
    assert answer.commands == (f"lfs hsm_restore {data}/released '{data}/released too'",)


@pytest.mark.parametrize(("kind", "tool"), [("weka", "weka"), ("gpfs", "mmlsattr")])
def test_a_missing_tool_is_unknown(
    data: Path, tools: Callable[..., Path], kind: str, tool: str
) -> None:
    answer = ask(data, kind, *ALL)
    assert counts(answer) == {"unknown": 4}
    assert (answer.answer, answer.reason) == ("UNKNOWN", f"{tool} is not on this node")
    assert answer.commands == ()


def test_mmlsattr_without_its_library_measured_nothing(
    data: Path, tools: Callable[..., Path]
) -> None:
    tools("mmlsattr", "#!/bin/sh\necho 'mmlsattr: libgpfs.so: cannot open' >&2\nexit 127\n")
    answer = ask(data, "gpfs", *ALL)
    assert counts(answer) == {"unknown": 4}
    assert "exit 127" in answer.reason
    assert "libgpfs" in answer.reason


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'error: not logged in' >&2; exit 1", "weka: exit 1 error: not logged in"),
        ("printf 'odd \\033[31m' >&2; exit 1", "weka: exit 1 odd ?[31m"),
        ("echo nothing of use", "weka: did not tell of all files"),
        ("sleep 30", "weka: no answer within"),
    ],
)
def test_a_tool_that_fails_is_unknown(
    data: Path, tools: Callable[..., Path], script: str, reason: str
) -> None:
    tools("weka", f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    answer = residency_of(os.fspath(data), ALL, "weka", soon(0.5))
    assert counts(answer) == {"unknown": 4}
    assert answer.reason.startswith(reason)


def test_many_files_are_asked_in_bounded_command_lines(
    tmp_path: Path, tools: Callable[..., Path]
) -> None:
    text = install(tmp_path / "bin", "lfs").read_text()
    tools("lfs", text + f"open({os.fspath(tmp_path / 'calls')!r}, 'a').write(f'{{len(files)}} ')\n")
    folder = tmp_path / "many"
    folder.mkdir()
    names = [f"released{number:04}" for number in range(600)]
    for name in names:
        (folder / name).write_bytes(b"x")
    answer = ask(folder, "lustre", *names)
    assert counts(answer) == {"released": 600}
    assert len(answer.listed) == 100
    assert (tmp_path / "calls").read_text() == "256 256 88 "
    assert answer.commands == (f"find {folder} -type f -print0 | xargs -0 -n 1000 lfs hsm_restore",)


def test_names_a_tool_could_misprint_are_not_handed_to_it(
    data: Path, tools: Callable[..., Path]
) -> None:
    """A line break in a name could forge the line of another file."""
    tools("lfs")
    forged = f"x\n{data}/a: (0x0000000d) released exists archived, archive_id:1"
    names = ["a", "-released", os.fsdecode(b"released\xff"), "b\nreleased", forged.replace("/", "")]
    for name in names[1:]:
        (data / name).write_bytes(b"x")
    answer = ask(data, "lustre", *names)
    assert counts(answer) == {"resident": 1, "released": 1, "unknown": 3}
    assert answer.not_resident == ("-released",)
    assert answer.reason == "file names that lfs cannot print safely"
    assert answer.answer == "FAIL"


def test_commands_are_quoted_for_the_shell(data: Path, tools: Callable[..., Path]) -> None:
    tools("lfs")
    name = "released $(touch x)'; rm -rf é\""
    (data / name).write_bytes(b"x")
    (command,) = ask(data, "lustre", name).commands
    assert command.isascii()
    words = command.removeprefix("lfs hsm_restore ")
    printed = subprocess.check_output(["bash", "-c", f"printf %s {words}"])
    assert os.fsdecode(printed) == f"{data}/{name}"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "No such file or directory"),
        ("../outside", "not a path below the folder"),
        ("/etc/passwd", "not a path below the folder"),
        ("", "not a path below the folder"),
        ("a\0b", "not a path below the folder"),
        ("n" * 4000, "File name too long"),
        ("d/" * 2200 + "f", "File name too long"),
        ("fifo", "not a regular file"),
        ("folder", "not a regular file"),
        ("loop", "Too many levels of symbolic links"),
        ("out", "a link leads out of the folder"),
        ("up/outside", "a link leads out of the folder"),
    ],
)
def test_what_is_no_file_of_the_folder_is_unknown(data: Path, path: str, reason: str) -> None:
    (data.parent / "outside").write_bytes(b"x")
    os.mkfifo(data / "fifo")
    (data / "folder").mkdir()
    (data / "loop").symlink_to("loop")
    (data / "out").symlink_to("../outside")
    (data / "up").symlink_to("..")
    if os.geteuid() != 0 and "link leads" in reason:
        pytest.skip("only root refuses to follow links out of the folder")
    answer = ask(data, "local", path)
    assert counts(answer) == {"unknown": 1}
    assert answer.reason == reason


def test_a_link_within_the_folder_is_followed(data: Path, tools: Callable[..., Path]) -> None:
    tools("lfs")
    (data / "link").symlink_to("released")
    answer = ask(data, "lustre", "link")
    assert answer.not_resident == ("link",)
    assert answer.commands == (f"lfs hsm_restore {data}/released",)


def test_a_file_swapped_for_a_link_while_it_is_looked_at(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was pinned is judged, not what the name leads to afterwards."""
    asked = []

    def swap_then_fail(path: str, name: str) -> bytes:
        (data / "a").unlink()
        (data / "a").symlink_to("/dev/zero")
        asked.append(Path(path).stat().st_size)
        raise OSError(errno.ENODATA, "none")

    monkeypatch.setattr(lustre_hsm.os, "getxattr", swap_then_fail)
    answer = ask(data, "lustre", "a")
    assert asked == [1000]
    assert counts(answer) == {"unknown": 1}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_root_runs_no_tool_on_what_others_could_swap(
    data: Path, tools: Callable[..., Path], tmp_path: Path
) -> None:
    tools("weka", f"#!/bin/sh\n: > {tmp_path}/ran\n")
    os.chown(data / "released", 65534, 65534)
    answer = ask(data, "weka", "released")
    assert (counts(answer), (tmp_path / "ran").exists()) == ({"unknown": 1}, False)
    assert answer.reason == "tools are not run as root on files of others: ask as their owner"
    os.chown(data, 65534, 65534)
    assert counts(ask(data, "weka", "a")) == {"unknown": 1}
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    answer = ask(tmp_path / "missing", "lustre", "a", "b")
    assert (counts(answer), answer.answer) == ({"unknown": 2}, "UNKNOWN")
    assert answer.reason == "the folder cannot be opened: No such file or directory"


def test_no_files_are_not_ok(data: Path) -> None:
    assert ask(data, "local").answer == "UNKNOWN"


def test_a_deadline_that_is_over(data: Path) -> None:
    answer = residency_of(os.fspath(data), ALL, "lustre", time.monotonic())
    assert (answer.not_asked, answer.answer, counts(answer)) == (4, "UNKNOWN", {})


def test_empty_files_hold_nothing_to_wait_for(data: Path) -> None:
    (data / "empty").touch()
    assert ask(data, "weka", "empty").answer == "OK"


def test_a_path_named_twice_counts_once(data: Path) -> None:
    answer = ask(data, "local", "a", "a")
    assert (counts(answer), answer.not_asked) == ({"resident": 1}, 0)


# --- local file systems -----------------------------------------------------------------------


def in_folder(data: Path, surroundings: Surroundings, *paths: str) -> ResidencyAnswer:
    root = open_root(os.fspath(data))
    try:
        return judge.residency_in(root, paths, surroundings, soon())
    finally:
        os.close(root.descriptor)


def hole(path: Path, written_s: float = LONG_AGO_S) -> None:
    """A file of 65 MiB of which nothing was written. ctime is now: tests age the clock."""
    with path.open("wb") as file:
        file.truncate(BIG_BYTES + (1 << 20))
    os.utime(path, (written_s, written_s))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten minutes from now, so that what a test writes was not written a moment ago."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 600)


def test_local_files_are_resident(data: Path) -> None:
    answer = in_folder(data, Surroundings("local", "ext4"), *ALL)
    assert (counts(answer), answer.source) == ({"resident": 4}, "file system kind")
    assert (answer.answer, answer.commands) == ("OK", ())


@pytest.mark.usefixtures("later")
def test_a_large_file_full_of_holes_is_suspect(data: Path) -> None:
    hole(data / "hole")
    answer = in_folder(data, Surroundings("local", "xfs"), "a", "hole")
    assert (counts(answer), answer.answer) == ({"resident": 1, "suspect": 1}, "DEGRADED")
    assert answer.suspect_bytes == BIG_BYTES + (1 << 20)


def test_what_was_written_a_moment_ago_may_have_no_blocks_yet(data: Path) -> None:
    hole(data / "hole")
    assert in_folder(data, Surroundings("local", "ext4"), "hole").answer == "OK"


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("fstype", ["zfs", "btrfs", ""])
def test_compression_explains_missing_blocks(data: Path, fstype: str) -> None:
    hole(data / "hole")
    assert in_folder(data, Surroundings("local", fstype), "hole").answer == "OK"


def test_a_disk_under_data_migration_is_unknown(data: Path) -> None:
    answer = in_folder(data, Surroundings("local", "xfs", ("rw", "dmapi")), "a")
    assert answer.answer == "UNKNOWN"


@pytest.mark.root
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no second file system")
def test_a_file_on_another_file_system_is_unknown(data: Path) -> None:
    if Path("/dev/shm").stat().st_dev == data.stat().st_dev or os.geteuid() != 0:
        pytest.skip("needs root and a second file system")
    (data / "inner").mkdir()
    assert os.system(f"mount --bind /dev/shm {data}/inner") == 0
    try:
        (data / "inner" / f"slurm_io-{os.getpid()}").write_bytes(b"x")
        answer = ask(data, "local", f"inner/slurm_io-{os.getpid()}")
        assert answer.reason == "lies on another file system than the folder"
    finally:
        (data / "inner" / f"slurm_io-{os.getpid()}").unlink()
        os.system(f"umount {data}/inner")


# --- block counts, which only accuse ------------------------------------------------------------

GB = 10**9


def seen(path: str, size_bytes: int, share: float, changed_s: float = 0.0) -> Seen:
    return Seen(path, f"/d/{path}", size_bytes, int(size_bytes * share) // 512, changed_s, 0)


def states(kind: Any, *files: Seen, now_s: float = 1e9) -> list[str]:
    verdicts = accuse(files, files, kind, now_s)
    return [verdicts[each.path].state for each in files]


@pytest.mark.parametrize("kind", ["nfs", "beegfs", "smb", "gpfs", "other"])
@pytest.mark.parametrize(
    ("share", "state"),
    [(0, "suspect"), (0.49, "suspect"), (0.51, "unknown"), (1, "unknown"), (3, "unknown")],
)
def test_the_share_of_blocks_accuses_and_never_clears(kind: str, share: float, state: str) -> None:
    assert states(kind, seen("a", GB, share), seen("b", GB, 1), seen("c", GB, 1))[0] == state


@pytest.mark.parametrize(
    "file",
    [
        seen("inline", 100, 0),
        seen("small", BIG_BYTES, 0),
        seen("fresh", GB, 0, changed_s=1e9 - 60),
        seen("tomorrow", GB, 0, changed_s=2e9),
    ],
)
def test_files_that_are_not_judged_by_their_blocks(file: Seen) -> None:
    assert states("nfs", file) == ["unknown"]


@pytest.mark.parametrize("kind", ["ceph", "weka"])
def test_made_up_block_counts_accuse_nobody(kind: str) -> None:
    assert states(kind, seen("a", GB, 0)) == ["unknown"]


def test_a_fuse_mount_without_any_block_counts_accuses_nobody() -> None:
    assert states("fuse", seen("a", GB, 0), seen("b", GB, 0)) == ["unknown"] * 2
    assert states("fuse", seen("a", GB, 0), seen("b", GB, 1)) == ["suspect", "unknown"]


def test_where_most_files_are_compressed_only_empty_ones_are_suspect() -> None:
    files = [seen(f"c{number}", GB, 0.3) for number in range(5)]
    assert states("nfs", *files, seen("gone", GB, 0.0)) == ["unknown"] * 5 + ["suspect"]


def test_one_block_is_lustres_word_for_released() -> None:
    one = Seen("a", "/d/a", 1000, 1, 1e9, 0)
    assert states("lustre", one) == ["released"]
    assert states("nfs", one) == ["unknown"]
    assert states("lustre", one._replace(size_bytes=512)) == ["unknown"]  # one whole block


# --- slowfs: a file system that really evicts ---------------------------------------------------


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowFs]:
    """Files of 65 MiB with all their blocks; those called gone* are evicted."""
    backing = tmp_path / "backing"
    backing.mkdir()
    for name in ("here0", "here1", "gone0", "gone1"):
        with (backing / name).open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, BIG_BYTES + (1 << 20))
    settings = SlowFsSettings(evicted_globs=("gone*",), recall_latency_s=30.0)
    with SlowFs(backing, tmp_path / "mount", settings, attr_timeout_s=0.0) as made:
        yield made


FOUR = ("here0", "gone0", "here1", "gone1")


def was_untouched(slow: SlowFs) -> bool:
    classes = slow.ledger()["classes"]
    return not any(classes.get(name, {}).get("count", 0) for name in ("read", "open", "write"))


@pytest.mark.usefixtures("later")
class TestEvicted:
    pytestmark = needs_fuse

    def test_are_suspect_by_their_blocks(self, slow: SlowFs) -> None:
        answer = ask(slow.mountpoint, "fuse", *FOUR)
        assert (counts(answer), answer.answer) == ({"suspect": 2, "unknown": 2}, "DEGRADED")
        assert {each.path for each in answer.listed} == {"gone0", "gone1"}
        assert was_untouched(slow)

    def test_are_released_by_lustres_one_block(self, slow: SlowFs, tools: Any) -> None:
        slow.change(evicted_blocks=1)
        answer = ask(slow.mountpoint, "lustre", *FOUR)
        assert counts(answer) == {"released": 2, "unknown": 2}
        assert (answer.source, answer.answer) == ("st_blocks", "FAIL")
        assert "lfs is not on this node" in answer.reason
        assert not slow.ledger()["classes"].get("read", {}).get("count", 0)

    def test_are_released_by_their_layout(self, slow: SlowFs) -> None:
        layouts = {
            glob: {"lustre.lov": (SAMPLES / f"xattr_{name}.bin").read_bytes().hex()}
            for glob, name in (("here*", "v1_plain_4"), ("gone*", "v1_released"))
        }
        slow.change(xattrs=layouts)
        answer = ask(slow.mountpoint, "lustre", *FOUR)
        assert counts(answer) == {"resident": 2, "released": 2}
        assert answer.sources == {"lov xattr": 4}
        assert answer.missing_bytes == 2 * (BIG_BYTES + (1 << 20))
        slow.change(evicted_blocks=1, xattrs={"*": layouts["here*"]})
        assert ask(slow.mountpoint, "lustre", *FOUR).answer == "OK"  # the layout outranks blocks
        assert was_untouched(slow)


def test_the_ioctl_of_lustre_has_the_number_lfs_uses() -> None:
    assert lustre_hsm._LL_IOC_HSM_STATE_GET == 0x802066D3


def test_an_ioctl_that_answers(data: Path, monkeypatch: pytest.MonkeyPatch, tools: Any) -> None:
    """No Lustre here: the answer's bytes are built from the header's struct."""
    answer_bytes = (0xD).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(24)
    monkeypatch.setattr(lustre_hsm.fcntl, "ioctl", lambda *_: answer_bytes)
    answer = ask(data, "lustre", "a")
    assert (counts(answer), answer.source) == ({"released": 1}, "hsm ioctl")


def test_weka_does_not_need_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    import pwd

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert weka._home() == {}
