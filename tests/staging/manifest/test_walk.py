"""Listing a folder: everything is a file, left out by a rule, or a problem with its reason."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slurm_io.staging.beneath import Folder
from slurm_io.staging.manifest.exclude import Exclusions
from slurm_io.staging.manifest.walk import FollowLinks, Listing, Walk


def walk(root: Path, links: FollowLinks = "refuse") -> Listing:
    with Folder.at(str(root)) as folder:
        return Walk(folder, Exclusions(), links).run()


def names(listing: Listing) -> list[bytes]:
    return [found.raw_path for found in listing.files]


def test_every_name_there_can_be_in_the_order_of_bytes(tmp_path: Path) -> None:
    raws = [b"a\nb", b"\xff\xfe", "é".encode(), b"-rf", b" ", b"sub/\\x", b"sub.x", b"*"]
    (tmp_path / "sub").mkdir()
    for raw in raws:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw)).write_bytes(raw)
    assert names(walk(tmp_path)) == sorted(raws)
    assert walk(tmp_path).problems == []


def test_what_is_no_file_is_a_problem(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "up").symlink_to("..")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "sock"))
    reasons = {problem.path: problem.reason for problem in walk(tmp_path).problems}
    assert "named pipe" in reasons["pipe"] and "socket" in reasons["sock"]
    assert all("--follow-links" in reasons[name] for name in ("link", "loop", "up"))


def test_links_inside_are_files_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "root/blobs").mkdir(parents=True)
    (tmp_path / "root/blobs/b1").write_text("content")
    (tmp_path / "root/snap").mkdir()
    (tmp_path / "root/snap/good").symlink_to("../blobs/b1")
    (tmp_path / "root/snap/chain").symlink_to("good")
    (tmp_path / "secret").write_text("no")
    for name, target in [
        ("out", "../../secret"), ("abs", "/etc/passwd"), ("gone", "nothing"), ("loop", "loop"),
        ("folder", "../blobs"), ("up", ".."),
    ]:  # fmt: skip
        (tmp_path / "root/snap" / name).symlink_to(target)
    (tmp_path / "root-not").mkdir()
    (tmp_path / "root-not/x").write_text("beside")
    (tmp_path / "root/snap/beside").symlink_to("../../root-not/x")
    listing = walk(tmp_path / "root", "inside")
    assert [(found.raw_path, found.target) for found in listing.files] == [
        (b"blobs/b1", None),
        (b"snap/chain", b"blobs/b1"),
        (b"snap/good", b"blobs/b1"),
    ]
    assert {problem.path for problem in listing.problems} == {
        f"snap/{name}" for name in ("out", "abs", "gone", "loop", "folder", "up", "beside")
    }


def test_a_second_look_lists_only_what_is_new_or_other(tmp_path: Path) -> None:
    for name in ("same", "sub/same", "changed", "gone", "replaced", "now a link"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to("same")
    first = walk(tmp_path, "inside")
    known = {found.raw_path: found.identity for found in first.files}
    (tmp_path / "changed").write_text("longer")
    (tmp_path / "gone").unlink()
    (tmp_path / "other").write_text("x")
    (tmp_path / "other").rename(tmp_path / "replaced")
    (tmp_path / "new").write_text("x")
    (tmp_path / "now a link").unlink()
    (tmp_path / "now a link").symlink_to("same")
    counts: list[int] = []
    with Folder.at(str(tmp_path)) as folder:
        again = Walk(folder, Exclusions(), "inside").run(counts.append, known)
    listed = [b"changed", b"link", b"new", b"now a link", b"replaced"]
    assert names(again) == listed
    assert sorted(known) == [b"changed", b"gone", b"link", b"now a link", b"replaced"]
    assert counts[-1] == 5, "two links come last"


def test_left_out_is_counted(tmp_path: Path) -> None:
    for name in (".snapshot", "lost+found"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("")
    for name in ("shard.tar", ".shard.tar.aaaaaa", ".shard.tar.bbbbbb"):
        (tmp_path / name).write_text("")
    listing = walk(tmp_path)
    assert names(listing) == [b"shard.tar"]
    assert listing.left_out == {".snapshot": 1, "lost+found": 1, "rsync's temporary files": 2}


def test_paths_no_program_can_open_are_problems_not_endless(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(30):
        os.mkdir(b"d" * 200, dir_fd=fd)
        below = os.open(b"d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(os.open(b"f", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)
    listing = walk(tmp_path)
    assert not listing.files
    assert [problem.reason.rpartition("has ")[2] for problem in listing.problems] == [
        "4220 bytes: at most 4096, or no program can open it"
    ]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_unreadable_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "open").write_text("")
    tmp_path.chmod(0o755)
    code = (
        "import os; from slurm_io.staging.manifest.walk import *\n"
        "from slurm_io.staging.manifest.exclude import Exclusions\n"
        f"folder = Folder.at({str(tmp_path)!r}); os.setgid(65534); os.setuid(65534)\n"
        "print(Walk(folder, Exclusions()).run().problems)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "closed" in done.stdout and "Permission denied" in done.stdout


def test_names_do_not_depend_on_the_locale(tmp_path: Path) -> None:
    (tmp_path / "é").write_text("")
    code = (
        "import sys; from slurm_io.staging.manifest.walk import *\n"
        "from slurm_io.staging.manifest.exclude import Exclusions\n"
        f"print([f.raw_path for f in Walk(Folder.at({str(tmp_path)!r}), Exclusions()).run().files])"
    )
    for locale in ("C", "C.UTF-8"):
        env = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True
        )
        assert done.stdout.strip() == repr(["é".encode()])
