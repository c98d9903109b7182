"""The block lab gives a real device that counts, and takes it away again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.labs.block import BlockLab, FsType, block_lab_missing
from tests.labs.mounts import mounted_at

pytestmark = pytest.mark.root


def sectors_written(device_name: str) -> int:
    for line in Path("/proc/diskstats").read_text().splitlines():
        fields = line.split()
        if fields[2] == device_name:
            return int(fields[9])
    raise LookupError(device_name)


@pytest.mark.parametrize("fstype", ["ext4", "xfs"])
def test_what_is_written_shows_in_diskstats_and_nothing_is_left(
    tmp_path: Path, fstype: FsType
) -> None:
    if reason := block_lab_missing(fstype):
        pytest.skip(reason)
    with BlockLab(tmp_path, fstype) as lab:
        before = sectors_written(lab.device_name)
        with open(lab.mountpoint / "file", "wb") as file:
            file.write(bytes(2**20))
            os.fsync(file.fileno())
        assert sectors_written(lab.device_name) - before >= 2**20 // 512
        device = lab.device
    assert not mounted_at(lab.mountpoint)
    assert not Path(f"/sys/block/{Path(device).name}/loop").exists()


def test_a_failing_start_leaves_no_device(tmp_path: Path) -> None:
    if reason := block_lab_missing("ext4"):
        pytest.skip(reason)
    with pytest.raises(RuntimeError, match=r"mkfs|mount"), BlockLab(tmp_path, "ext4", 4096):
        pass
    assert not mounted_at(tmp_path / "mount")
    assert not (tmp_path / "image").exists()
