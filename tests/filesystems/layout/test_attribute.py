"""One attribute, whatever its size and whichever call reads it."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from slurm_io.filesystems.layout import attribute
from slurm_io.filesystems.layout.attribute import AttributeReader
from tests.filesystems.layout.layout_tree import ATTRIBUTE, put

pytestmark = pytest.mark.root
PROGRESSIVE_BYTES = os.urandom(300)


def test_every_size_of_attribute_is_read_whole_whichever_way(room: Path) -> None:
    reader = AttributeReader(ATTRIBUTE)
    for size in (1, 127, 128, 129, 2047, 2048, 2049, 4000, 60_000):
        data = os.urandom(size)
        path = os.fsencode(put(room / str(size), data))
        for likely in (0, 200, 5000):
            assert reader.way(likely)(path) == data
    os.removexattr(room, ATTRIBUTE)
    for likely in (0, 200):
        for name, code in (("missing", errno.ENOENT), (".", errno.ENODATA)):
            with pytest.raises(OSError) as caught:
                reader.way(likely)(os.fsencode(room / name))
            assert caught.value.errno == code


def test_reader_without_ctypes_reads_the_same(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    path = os.fsencode(put(tree / "f", PROGRESSIVE_BYTES))
    assert attribute.AttributeReader(ATTRIBUTE).way(200)(path) == PROGRESSIVE_BYTES


def test_attribute_of_a_link_is_not_that_of_its_target(tree: Path) -> None:
    put(tree / "f", PROGRESSIVE_BYTES)
    (tree / "link").symlink_to("f")
    for likely in (0, 200):
        with pytest.raises(OSError, match="No data"):
            AttributeReader(ATTRIBUTE).way(likely)(os.fsencode(tree / "link"))
