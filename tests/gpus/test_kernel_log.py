"""Xids read from records of the kernel log."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.gpus import kernel_log
from slurm_io.host.kernel_log import read_kernel_log

RECORDS = """\
6,1,1000000,-;NVRM: Xid (PCI:0000:17:00): 31, pid=1, name=python, MMU Fault
3,2,5000000,-;NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.
3,3,6000000,-;NVRM: Xid (0000:65:00): 94, Contained: SM
14,4,7000000,-;NVRM: Xid (PCI:0000:17:00): 48, forged by a user's program
6,5,7000000,-;usb 1-1: NVRM: Xid (PCI:0000:17:00): 48, not at the start
6,6,8000000,-;NVRM: Xid (PCI:0000:17:00): none
"""


def test_xids_of_the_driver_since_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "kmsg"
    log.write_text(RECORDS)
    monkeypatch.setattr(
        kernel_log, "read_kernel_log", lambda starts: read_kernel_log(str(log), starts)
    )
    assert kernel_log.xids_since(2.0) == [
        {"bus": "0000:17:00", "xid": 79, "at_s": 5.0},
        {"bus": "0000:65:00", "xid": 94, "at_s": 6.0},
    ]
    assert kernel_log.xids_since(100.0) == []
