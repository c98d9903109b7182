"""The two causes that a team took for one: an index that grows with the steps, and storage."""

from __future__ import annotations

from tests.grid.model import (
    BLAMES_STORAGE,
    DATA,
    F01,
    NOT_ILL,
    STORAGE,
    Limits,
    Scenario,
    steps,
)
from tests.labs.slowfs_settings import SlowFsSettings

F09 = frozenset({"F09"})
SCENARIOS = (
    Scenario(
        name="index-growth",
        why="Every step adds 640 KiB and looks into all of it; storage is fast.",
        train=steps(1100, compute_ms=14, batch=1, index_kib=640, index_ms=8),
        verdicts=NOT_ILL,
        fired=F09,
        quiet=F01 | BLAMES_STORAGE,
        limits=Limits(),
        decoy=True,
        is_long=True,
    ),
    Scenario(
        name="index-growth-and-spikes",
        why="The same, on storage that answers nothing for 1.6 s every 5 s: both are told.",
        train=steps(1100, compute_ms=14, batch=1, index_kib=640, index_ms=8),
        verdicts=STORAGE,
        fired=F01 | F09,
        quiet=frozenset({"F04"}),
        slow=SlowFsSettings(spike_period_s=5.0, spike_duration_s=0.3, spike_latency_s=1.6),
        slow_places=DATA,
        limits=Limits(),
        is_long=True,
    ),
)
