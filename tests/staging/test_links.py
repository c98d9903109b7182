"""Links below a folder: where they lead inside, and that nothing outside is ever looked at."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.staging.beneath import NotAFile
from slurm_io.staging.links import LinksInside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "top/root"
    (made / "blobs").mkdir(parents=True)
    (made / "snap").mkdir()
    (made / "blobs/b1").write_text("content")
    (tmp_path / "secret").write_text("no")
    return made


def target(root: Path, text: str, path: Path | str = "") -> bytes | None:
    """Where a link in ``snap/`` with this text leads."""
    link = root / "snap/link"
    link.unlink(missing_ok=True)
    link.symlink_to(text)
    descriptor = os.open(root, os.O_RDONLY)
    try:
        with LinksInside(descriptor, os.fspath(path)) as links:
            return links.target(b"snap/link")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    "text",
    ["../blobs/b1", "..//blobs/./b1", "../snap/../blobs/b1", "../../root/blobs/b1",
     "../../../top/root/blobs/b1", "through/b1", "chain"],
)  # fmt: skip
def test_ways_that_stay_inside(root: Path, text: str) -> None:
    (root / "snap/through").symlink_to("../blobs")
    (root / "snap/chain").symlink_to("through/b1")
    assert target(root, text) == b"blobs/b1"


def test_absolute_links_count_by_the_real_path_and_the_one_it_was_opened_by(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert target(root, f"{root}/blobs/b1") == b"blobs/b1"
    alias = tmp_path / "alias"
    assert target(root, f"{alias}/blobs/b1", alias) == b"blobs/b1"
    assert target(root, f"{alias}/blobs/b1") is None, "nothing outside is looked at to find out"
    assert target(root, f"{root}-not/blobs/b1") is None


@pytest.mark.parametrize(
    "text",
    ["../../../secret", "/etc/passwd", "/", "..", "../..", ".", "nothing", "link", "../blobs/b1/",
     "../blobs/b1/x", "../../other/root/blobs/b1", "../../../../../../../../../../etc/passwd",
     "a" * 300, "/proc/self/root/etc/passwd"],
)  # fmt: skip
def test_ways_that_leave_or_end_nowhere(root: Path, text: str) -> None:
    found = target(root, text)
    assert found is None or found in (b"snap",), found


def test_a_link_out_is_not_followed_even_to_come_back(root: Path, tmp_path: Path) -> None:
    (tmp_path / "back").symlink_to(root)
    assert target(root, "../../../back/blobs/b1") is None


def test_a_mount_that_hangs_outside_is_never_touched(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[object] = []
    for name in ("lstat", "open", "readlink", "stat"):
        real = getattr(os, name)

        def noted(path: object, *rest: object, real: object = real, **more: object) -> object:
            if more.get("dir_fd") is None:
                touched.append(path)
            return real(path, *rest, **more)  # type: ignore[operator]

        monkeypatch.setattr(os, name, noted)
    descriptor = os.open(root, os.O_RDONLY)
    (root / "snap/link").symlink_to("/net/dead-server/x")
    touched.clear()
    with LinksInside(descriptor) as links:
        assert links.target(b"snap/link") is None
    os.close(descriptor)
    assert touched == [f"/proc/self/fd/{descriptor}".encode()]


def test_endless_chains_end(root: Path) -> None:
    (root / "snap/a").symlink_to("b")
    (root / "snap/b").symlink_to("a")
    assert target(root, "a") is None
    (root / "snap/deep").symlink_to("deep/deep")
    assert target(root, "deep") is None


def test_only_regular_files_are_opened(root: Path) -> None:
    os.mkfifo(root / "blobs/fifo")
    for text in ("../blobs/fifo", "../blobs"):
        target(root, text)
        descriptor = os.open(root, os.O_RDONLY)
        with LinksInside(descriptor) as links:
            for ask in (links.look, links.open):
                with pytest.raises(NotAFile):
                    ask(b"snap/link")
        os.close(descriptor)


def test_a_swap_between_look_and_open_leads_nowhere(root: Path, tmp_path: Path) -> None:
    class Swapped(LinksInside):
        def target(self, link: bytes) -> bytes | None:
            found = super().target(link)
            (root / "blobs/b1").unlink()
            (root / "blobs/b1").symlink_to(tmp_path / "secret")
            return found

    target(root, "../blobs/b1")
    descriptor = os.open(root, os.O_RDONLY)
    with Swapped(descriptor) as links, pytest.raises(NotAFile, match="a symbolic link"):
        links.open(b"snap/link")
    os.close(descriptor)


NAMES = st.sampled_from(["a", "b", "c", "..", ".", "root", ""])
TEXTS = st.lists(NAMES, min_size=1, max_size=5).map("/".join).filter(lambda text: text.strip("/"))


@settings(max_examples=300, deadline=None)
@given(
    links=st.dictionaries(st.sampled_from(["a", "b", "c", "d/a", "d/b"]), TEXTS, max_size=5),
    absolute=st.booleans(),
)
def test_it_finds_what_the_kernel_finds_where_that_is_inside(
    links: dict[str, str], absolute: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder)) / "root"
        (root / "d/c").mkdir(parents=True)
        (root / "c").mkdir()
        (root / "c/b").write_text("x")
        for name, text in links.items():
            if not os.path.lexists(root / name):
                (root / name).symlink_to(f"{root}/{text}" if absolute else text)
        descriptor = os.open(root, os.O_RDONLY)
        with LinksInside(descriptor) as inside:
            for name in links:
                if (root / name).is_symlink():
                    assert inside.target(name.encode()) == _by_the_kernel(root, name), (name, links)
        os.close(descriptor)


def _by_the_kernel(root: Path, name: str) -> bytes | None:
    try:
        (root / name).stat()
        real = os.path.realpath(root / name, strict=True)
    except OSError:
        return None
    return os.fsencode(os.path.relpath(real, root)) if real.startswith(f"{root}/") else None
