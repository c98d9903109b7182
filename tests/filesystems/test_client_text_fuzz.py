"""Damaged texts of file system clients: no crash, no number that a counter cannot be.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from slurm_io.filesystems import mountpoint_s3, nvidia_fs
from slurm_io.filesystems.beegfs.entry_info import EntryInfoError, parse_entry_info
from slurm_io.filesystems.beegfs.proc import parse_config, parse_servers, parse_target_states
from slurm_io.filesystems.ceph.client import CephClient
from slurm_io.filesystems.ceph.metrics import parse_metrics
from slurm_io.filesystems.ceph.requests import parse_mdsc, parse_osdc
from slurm_io.filesystems.fuse_connections import parse_waiting
from slurm_io.filesystems.gpfs.counters import counters_of as gpfs_counters
from slurm_io.filesystems.gpfs.mmpmon import parse_mmpmon
from slurm_io.filesystems.gpfs.waiters import longest, parse_waiters
from slurm_io.filesystems.juicefs.client import JuiceClient
from slurm_io.filesystems.juicefs.stats import cache_of, parse_stats
from slurm_io.filesystems.weka.client import WekaClient
from slurm_io.filesystems.weka.interface import parse_interface
from slurm_io.filesystems.weka.stat import parse_stat
from slurm_io.filesystems.weka.status import parse_status
from tests.filesystems.client_samples import FIXTURES, sample
from tests.filesystems.layout.mutations import mutate_text

LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
OSDC = (
    "REQUESTS 1 homeless 0\n12\tosd1\t2.2a\t2.7\t[1]/1\t[1]/1\te15\t1.0\t0x4\t1\tread\nBACKOFFS\n"
)
MDSC = "12\tmds0\tgetattr\t #100000003ed\n13\t(no session)\tlookup\t #1/a\n"
SERVERS = "s 1 [ID: 1]\n   Root: <yes>\n   Connections: TCP: 4 (192.0.2.4:8003); RDMA: 1 (x); \n"
STATES = "[Target ID: 101] @ beegfs-storage s [ID: 1]: Online / Good \n"
CONFIG = "cfgFile = /etc/beegfs/beegfs-client.conf\nlogLevel = 3\n"
READERS = (
    ("weka", "proc_wekafs_stat"), ("weka", "proc_wekafs_interface"), ("weka", "weka_status"),
    ("beegfs", "entryinfo"), ("gpfs", "mmpmon"), ("gpfs", "mmdiag"), ("ceph", "debugfs"),
    ("fuse_s3", "juicefs"), ("fuse_s3", "mountpoint_s3"), ("gds", "proc_driver"),
)  # fmt: skip


def entry_info(text: str) -> object:
    try:
        return parse_entry_info(text)
    except EntryInfoError as error:
        assert "\n" not in str(error) and len(str(error)) < 200
        return None


def weka_readings(text: str) -> object:
    client = WekaClient()
    whole = parse_stat(sample("weka/proc_wekafs_stat_3.6.txt"))
    damaged = parse_stat(text)
    return [client.take(stat) for stat in (whole, damaged, whole)], damaged


def ceph_readings(text: str) -> object:
    client = CephClient()
    whole = parse_metrics(sample("ceph/debugfs_metrics_single_file.txt"))
    damaged = parse_metrics(text)
    return [client.take(each, None, None) for each in (whole, damaged, whole)], damaged


def juicefs_readings(text: str) -> object:
    client = JuiceClient()
    stats = parse_stats(text)
    return stats.values, cache_of(stats), client.take(stats), client.take(stats)


def s3_figures(text: str) -> object:
    log = mountpoint_s3.parse_log(text)
    return log, mountpoint_s3.figures_of(log.metrics)


def gpfs_lines(text: str) -> object:
    return [gpfs_counters(line) for line in parse_mmpmon(text).lines]


SOURCES: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "proc_wekafs_stat": (weka_readings, []),
    "proc_wekafs_interface": (parse_interface, []),
    "weka_status": (parse_status, []),
    "entryinfo": (entry_info, []),
    "mmpmon": (gpfs_lines, []),
    "mmdiag": (lambda text: longest(parse_waiters(text).waiters, 0), []),
    "debugfs": (ceph_readings, []),
    "juicefs": (juicefs_readings, []),
    "mountpoint_s3": (s3_figures, []),
    "proc_driver": (nvidia_fs.parse_stats, []),
    "osdc": (parse_osdc, [OSDC]),
    "mdsc": (parse_mdsc, [MDSC]),
    "servers": (parse_servers, [SERVERS]),
    "states": (parse_target_states, [STATES]),
    "config": (parse_config, [CONFIG]),
    "waiting": (lambda text: parse_waiting(text.encode("utf-8", "replace")), ["17\n"]),
}
for folder, prefix in READERS:
    SOURCES[prefix][1].extend(
        path.read_text() for path in sorted((FIXTURES / folder).glob(f"{prefix}*"))
    )


def assert_sane(value: Any) -> None:
    """Every number in it is one that a counter, a mean or a place in a table can be."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return
    if isinstance(value, (int, float)):
        assert 0 <= value < 2**64
    elif isinstance(value, dict):
        for each in value.values():
            assert_sane(each)
    else:
        for each in value:
            assert_sane(each)


def fuzz(rounds: int | None, seconds: float, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    everything = [text for _, texts in SOURCES.values() for text in texts]
    outcomes = Counter[str]()
    end_s = time.monotonic() + seconds
    names = list(SOURCES)
    while rounds is None or outcomes.total() < rounds:
        name = chance.choice(names)
        reader, texts = SOURCES[name]
        assert_sane(reader(mutate_text(chance.choice(texts), everything, chance)))
        outcomes[name] += 1
        if outcomes.total() % 100 == 0 and time.monotonic() > end_s:
            break
    return outcomes


@pytest.mark.parametrize("name", SOURCES)
def test_whole_texts_are_sane(name: str) -> None:
    reader, texts = SOURCES[name]
    assert texts
    for text in texts:
        assert_sane(reader(text))


@pytest.mark.parametrize("name", SOURCES)
def test_every_reader_takes_every_others_text_and_nothing(name: str) -> None:
    reader, _ = SOURCES[name]
    for _, texts in SOURCES.values():
        for text in ("", "\n", *texts):
            assert_sane(reader(text))


def test_damaged_texts_give_no_impossible_number() -> None:
    outcomes = fuzz(4000, 30.0, seed=6)
    assert outcomes.total() == 4000 and min(outcomes.values()) > 100


@pytest.mark.long
@pytest.mark.timeout(int(LONG_S) + 300)
def test_long_fuzz(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = fuzz(None, LONG_S, seed=time.time_ns())
    with capsys.disabled():
        print(f"\nclient texts fuzz, {LONG_S:.0f} s: {dict(outcomes)}")
    assert len(outcomes) == len(SOURCES)
