"""Where a layout comes from, and what it means when none comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_io.filesystems.layout import reader
from slurm_io.filesystems.layout.reader import layout_of
from tests.filesystems.layout.layout_tree import put, striped
from tests.filesystems.layout.lov_maker import Part, plain
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings

FIXTURES = Path(__file__).parents[2] / "fixtures" / "layout"
GETSTRIPE = """{path}
lmm_stripe_count:  2
lmm_stripe_size:   1048576
lmm_pattern:       raid0
lmm_layout_gen:    0
lmm_stripe_offset: 1
\tobdidx\t\t objid\t\t objid\t\t group
\t     1\t          2\t          0x2\t             0
"""


@pytest.fixture
def lfs(tmp_path: Path) -> str:
    """A stand-in that prints what `output` beside it holds."""
    tool = tmp_path / "lfs"
    tool.write_text(f'#!/bin/sh\n[ "$1" = getstripe ] || exit 2\ncat {tmp_path}/output\n')
    tool.chmod(0o755)
    return str(tool)


@pytest.mark.root
def test_file_by_trusted_lov(tree: Path) -> None:
    reading = layout_of(str(put(tree / "f", striped(3))))
    assert reading.state == "layout" and reading.source == "trusted.lov"
    assert reading.layout is not None and reading.layout.components[0].osts == (0, 1, 2)


@pytest.mark.root
def test_relative_to_an_open_folder(tree: Path) -> None:
    put(tree / "f", striped(3))
    descriptor = os.open(tree, os.O_RDONLY)
    try:
        assert layout_of("f", dir_fd=descriptor).state == "layout"
    finally:
        os.close(descriptor)


@pytest.mark.root
def test_link_is_not_followed(tree: Path) -> None:
    put(tree / "f", striped(3))
    (tree / "link").symlink_to("f")
    assert layout_of(str(tree / "link")).layout is None


@pytest.mark.root
def test_damaged_layout_is_unreadable_with_its_reason(tree: Path) -> None:
    data = (FIXTURES / "xattr_truncated_comp.bin").read_bytes()
    reading = layout_of(str(put(tree / "f", data)), lfs="/nowhere/lfs")
    assert reading.state == "unreadable" and "150 bytes" in reading.reason


def test_no_lustre(tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    assert layout_of(str(tmp_path / "f")).state == "not lustre"
    assert layout_of(str(tmp_path / "missing")).state == "gone"


@pytest.mark.fuse
@pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing()))
def test_lustre_attributes_of_a_fuse_mount(tmp_path: Path) -> None:
    backing = tmp_path / "backing"
    (backing / "folder").mkdir(parents=True)
    (backing / "large").touch()
    (backing / "bare").touch()
    large = (FIXTURES / "xattr_v1_2000_stripes.bin").read_bytes()
    template = (FIXTURES / "xattr_dir_default_all_osts.bin").read_bytes()
    settings = SlowFsSettings(
        xattrs={
            "large": {"lustre.lov": large.hex()},
            "folder": {"lustre.lov": template.hex()},
        }
    )
    with SlowFs(backing, tmp_path / "mount", settings) as slow:
        found = layout_of(str(slow.mountpoint / "large"))
        assert found.source == "lustre.lov" and found.layout is not None
        assert len(found.layout.components[0].objects) == 2000
        default = layout_of(str(slow.mountpoint / "folder"), is_directory=True)
        assert default.layout is not None and default.layout.components[0].stripe_count == -1
        assert layout_of(str(slow.mountpoint / "bare")).state == "none"


@pytest.mark.parametrize("code", ["EACCES", "ERANGE"])
def test_lfs_stands_in_where_the_attribute_is_refused_or_too_large(
    code: str, tmp_path: Path, lfs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lmm_stripe_count: 9\nf"
    (tmp_path / "output").write_text(GETSTRIPE.format(path=path).replace("count:  2", "count:  1"))
    _refuse(monkeypatch, code)
    found = layout_of(str(path), lfs=lfs)
    assert found.source == "lfs getstripe" and found.layout is not None
    assert found.layout.components[0].osts == (1,)


def test_lfs_output_that_ends_early_is_no_layout(
    tmp_path: Path, lfs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "output").write_text(GETSTRIPE.format(path=tmp_path / "f"))
    _refuse(monkeypatch, "EACCES")
    found = layout_of(str(tmp_path / "f"), lfs=lfs)
    assert found.state == "unreadable" and "1 of 2 objects" in found.reason


def test_lfs_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "lfs"
    tool.write_text("#!/bin/sh\nsleep 60\n")
    tool.chmod(0o755)
    _refuse(monkeypatch, "EACCES")
    found = layout_of(str(tmp_path / "f"), lfs=str(tool), timeout_s=0.2)
    assert found.state == "denied" and "no answer within 0.2 s" in found.reason


def test_denied_without_lfs_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _refuse(monkeypatch, "EACCES")
    assert layout_of(str(tmp_path / "f"), lfs="/nowhere/lfs").state == "denied"


def _refuse(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A Lustre client that refuses is not to be had here."""
    import errno

    def getxattr(*arguments: object, **more: object) -> bytes:
        raise OSError(getattr(errno, code), code)

    monkeypatch.setattr(reader.os, "getxattr", getxattr)


def test_template_of_a_directory_is_not_taken_for_a_file() -> None:
    data = plain(Part(count=-1))
    assert reader.decode(data, is_directory=True, source="lustre.lov").state == "layout"
    assert reader.decode(data, is_directory=False, source="lustre.lov").state == "unreadable"
