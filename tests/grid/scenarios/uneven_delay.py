"""Storage that is slow now and then: in spikes, on one file, after an eviction, on a first pass."""

from __future__ import annotations

from tests.grid.model import DATA, F01, KIB, STORAGE, Change, Scenario, steps
from tests.labs.slowfs_settings import SlowFsSettings

F04 = frozenset({"F04"})
SLICE = 64 * KIB
SCENARIOS = (
    Scenario(
        name="spikes",
        why="Fast storage that answers nothing for 1.6 s every 4 s: prefetching hides 0.2 s of it.",
        train=steps(240, compute_ms=40, batch=1, workers=2),
        verdicts=STORAGE,
        fired=frozenset({"F02"}),
        quiet=F04,
        slow=SlowFsSettings(spike_period_s=4.0, spike_duration_s=0.3, spike_latency_s=1.6),
        slow_places=DATA,
    ),
    Scenario(
        name="spikes-0-workers",
        why="The same without workers: nothing is hidden.",
        train=steps(240, batch=1),
        verdicts=STORAGE,
        fired=frozenset({"F02"}),
        quiet=F04,
        slow=SlowFsSettings(spike_period_s=4.0, spike_duration_s=0.2, spike_latency_s=1.6),
        slow_places=DATA,
        is_long=True,
    ),
    Scenario(
        name="evicted-in-the-middle",
        why="4 s into the run the tier drops all shards: each shard's first read is a recall.",
        train=steps(300, batch=1, workers=1, reader="shards"),
        verdicts=STORAGE,
        fired=frozenset({"F02"}),
        quiet=F04,
        slow=SlowFsSettings(evicted_globs=(), recall_latency_s=1.6),
        slow_places=DATA,
        changes=(Change(4.0, {"evicted_globs": ("*",), "recall_generation": 1}),),
        files=15,
        file_bytes=20 * SLICE,
    ),
    Scenario(
        name="evicted-from-the-start",
        why="A dataset that was never recalled: the first read of every shard takes 0.6 s.",
        train=steps(240, batch=1, reader="shards"),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=SlowFsSettings(evicted_globs=("*",), recall_latency_s=0.6),
        slow_places=DATA,
        files=24,
        file_bytes=10 * SLICE,
        is_long=True,
    ),
    Scenario(
        name="one-hot-file",
        why="One of 48 files lies on an overloaded target (stripe count 1): 1.6 s more a read.",
        train=steps(240, batch=1),
        verdicts=STORAGE,
        fired=frozenset({"F02"}),
        quiet=F04,
        named={"files": "item-00007.bin"},
        slow=SlowFsSettings(file_latency_s={"*item-00007.bin": 1.6}),
        slow_places=DATA,
        files=48,
        is_long=True,
    ),
    Scenario(
        name="cold-first-pass",
        why="Three passes; the first one reads from storage, the later ones from the page cache.",
        train=steps(100, batch=1, epochs=3),
        verdicts=STORAGE,
        fired=F01,
        quiet=F04,
        slow=SlowFsSettings(read_latency_s=0.1),
        slow_places=DATA,
        cache="kernel",
        files=100,
        is_long=True,
    ),
)
