"""Damaged files of Lustre: never an error, never a row that cannot be.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.filesystems.lustre.histograms import parse_histograms
from slurm_io.filesystems.lustre.imports import (
    glance,
    outages,
    parse_import,
    parse_state_history,
)
from slurm_io.filesystems.lustre.job_stats import parse_io_latency, parse_job_stats
from slurm_io.filesystems.lustre.lnet import parse_lnet_stats, parse_lnetctl_stats
from slurm_io.filesystems.lustre.names import parse_instance, parse_lmv, parse_target
from slurm_io.filesystems.lustre.nested import parse_nested
from slurm_io.filesystems.lustre.params import split_params
from slurm_io.filesystems.lustre.stats import parse_stats
from slurm_io.filesystems.lustre.views import application_view, wire_view
from tests.collectors.fake_host import tick
from tests.collectors.lustre_host import (
    HEX,
    LustreHost,
    import_text,
    lines,
    osc,
    osc_stats,
    rpc_stats,
)
from tests.filesystems.counter_mutations import mutate
from tests.filesystems.nfs.test_fuzz import check_row

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lustre_client"
LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
STATE = (
    b"current_state: FULL\nstate_history:\n - [ 1700000000, DISCONN ]\n - [ 1700000009, FULL ]\n"
)
READERS: list[Callable[[str], object]] = [
    parse_histograms, parse_import, parse_job_stats, parse_io_latency, parse_lnet_stats,
    parse_lnetctl_stats, parse_nested, split_params, parse_instance, parse_target, parse_lmv,
]  # fmt: skip


def check_counters(found: ClientCounters) -> None:
    for value in found:
        assert value is None or value >= 0


class Fuzz:
    """Every reader on mutated samples, and a client whose files are mutated ones."""

    def __init__(self, root: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._seeds = [path.read_bytes() for path in sorted(FIXTURES.iterdir())] + [STATE]
        self._host = LustreHost(root, osts=2)
        self._host.mount()
        assert self._host.open().state == "on"
        self._second = 0
        self.outcomes = Counter[str]()

    def readers(self) -> None:
        data = mutate(self._chance.choice(self._seeds), self._seeds, self._chance)
        text = data.decode("utf-8", "replace")
        for reader in READERS:
            reader(text)
        stats = parse_stats(data)
        for view in (application_view(stats), wire_view(stats)):
            for found in view.values():
                check_counters(found)
        for one in outages(parse_state_history(text)):
            assert one.until_s is None or one.until_s >= one.from_s
        glance(data)
        self.outcomes["texts"] += 1
        self.outcomes["counters"] += len(stats.counters)
        self.outcomes["unread lines"] += stats.unread_lines

    def client(self) -> None:
        chance, host = self._chance, self._host
        self._second += 1
        step = self._second
        fresh = {
            f"llite/lustrefs-{HEX}/stats": lines(
                {"read_bytes": f"{step} bytes 1 2 {step << 20} 1",
                 "read": f"{step} usecs 1 2 {step * 100} 1", "open": f"{step} usecs 1 2 {step} 1"}
            ),
            f"osc/{osc(0)}/stats": osc_stats(step, step, 10 * step, step // 9, step // 3),
            f"osc/{osc(0)}/import": import_text(inflight=step % 9),
            f"osc/{osc(0)}/rpc_stats": rpc_stats(step % 5, 0, step),
            f"osc/{osc(0)}/state": STATE.decode(),
        }  # fmt: skip
        for name, text in fresh.items():
            data = text.encode()
            if chance.random() < 0.4:
                data = mutate(data, self._seeds, chance)
            host.file(name, "").write_bytes(data)
        rows = host.lustre.collect(tick(step))
        for row in rows:
            check_row(row)
        host.lustre.facts()
        self.outcomes["rows"] += len(rows)


def test_damaged_files_never_give_an_impossible_row(tmp_path: Path) -> None:
    fuzz = Fuzz(tmp_path, 7)
    for _ in range(400):
        fuzz.readers()
        fuzz.client()
    assert fuzz.outcomes["rows"] > 400 and fuzz.outcomes["unread lines"] > 100


@pytest.mark.long
@pytest.mark.timeout(int(LONG_S) + 300)
def test_long_fuzz(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz, end_s = Fuzz(tmp_path, time.time_ns()), time.monotonic() + LONG_S
    while time.monotonic() < end_s:
        fuzz.readers()
        fuzz.client()
    with capsys.disabled():
        print(f"\nlustre fuzz, {LONG_S:.0f} s: {dict(fuzz.outcomes)}")
    assert fuzz.outcomes["rows"]
