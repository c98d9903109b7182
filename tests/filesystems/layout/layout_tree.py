"""A tree whose files carry layouts in ``trusted.lov``, as a Lustre metadata target's do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.filesystems.layout.lov_maker import Part, plain

ATTRIBUTE = "trusted.lov"


def trusted_missing(folder: Path) -> str | None:
    """Why `folder` cannot hold ``trusted.`` attributes, or None when it can."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        try:
            os.setxattr(file.name, ATTRIBUTE, b"x")
        except OSError as error:
            return f"trusted. attributes: {error.strerror} (they need root)"
    return None


def put(path: Path, layout: bytes, size_bytes: int = 0) -> Path:
    """A (sparse) file with that layout."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.truncate(size_bytes)
    os.setxattr(path, ATTRIBUTE, layout)
    return path


def striped(count: int, first: int = 0) -> bytes:
    """`count` stripes on the OSTs from `first` on."""
    return plain(Part(osts=tuple(range(first, first + count)), count=count))


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """An empty folder that can carry layouts."""
    reason = trusted_missing(tmp_path)
    if reason is not None:
        pytest.skip(reason)
    root = tmp_path / "tree"
    root.mkdir()
    here = Path.cwd()
    yield root
    assert Path.cwd() == here, "an audit must put the working directory back"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds attributes of 64 KiB: ext4 holds 4, tmpfs all."""
    for place in (tmp_path, Path("/dev/shm")):
        with tempfile.TemporaryDirectory(dir=place) as name:
            try:
                os.setxattr(name, ATTRIBUTE, bytes(65000))
            except OSError:
                continue
            yield Path(name)
            return
    pytest.skip("no file system here holds an attribute of 64 KiB")
