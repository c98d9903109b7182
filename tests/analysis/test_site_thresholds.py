"""The site's ``[thresholds]`` decide, not only the defaults."""

from __future__ import annotations

from slurm_io import config
from slurm_io.analysis.thresholds import Thresholds, of_site

RULES = {
    "collections_share": 0.11,
    "space_saves": 3.0,
    "nfs_retrans_share": 0.12,
    "nfs_queue_ms": 7.0,
    "gpu_slowed_share": 0.13,
    "cpu_throttled_share": 0.14,
    "cpu_pressure_share": 0.15,
    "shm_share": 0.16,
    "growth_share": 0.17,
    "small_read_bytes": 4096,
    "device_busy_share": 0.18,
    "one_node_share": 0.19,
    "straggler_share": 0.21,
    "collective_share": 0.22,
    "load_s": 33.0,
    "node_mtbf_h": 5600.0,
    "checkpoint_gb_s": 40.0,
    "released_files": 5,
    "shared_file_bytes": 2**31,
    "shared_file_nodes": 16,
    "reread_share": 0.23,
    "padding_share": 0.24,
    "alike_nodes": 7,
    "alike_share": 0.26,
    "verified_age_h": 2.0,
    "unfinished_save_s": 77.0,
}


def test_without_a_file_the_defaults_of_both_rooms_agree() -> None:
    assert of_site(config.Thresholds()) == Thresholds()


def test_every_key_of_the_section_moves_a_threshold() -> None:
    data = {
        "data_share": 0.5,
        "checkpoint_share": 0.25,
        "storage_share": 0.75,
        "step_spread_ratio": 7.0,
        "step_spread_s": 9.0,
        "step_spread_share": 2.0,
        **RULES,
    }
    site = config.parse({"thresholds": data}).thresholds
    moved = of_site(site)
    assert (moved.shares.data_storage, moved.shares.checkpoint) == (0.5, 0.25)
    assert (moved.shares.data_unknown, moved.shares.together) == (0.5, 0.75)
    spread = moved.variance
    assert (spread.p99_over_p50, spread.p99_minus_p50_s, spread.p99_minus_p50_of_p50) == (7, 9, 2)
    rules = moved.rules
    assert moved.shares.elsewhere == 0.11
    assert (rules.space.saves, rules.nfs.retrans_share, rules.nfs.queue_ms) == (3, 0.12, 7)
    assert (rules.gpu.share, rules.workers.shm_share, rules.growth.share) == (0.13, 0.16, 0.17)
    assert (rules.cpu.throttled_share, rules.cpu.pressure_share) == (0.14, 0.15)
    assert (rules.small.read_bytes, rules.shallow.device_share) == (4096, 0.18)
    assert (rules.one_node.bytes_share, rules.straggler.held_share) == (0.19, 0.21)
    assert (rules.collective.share, rules.loading.seconds) == (0.22, 33)
    assert (rules.eviction.files, rules.cache.reread_share, rules.padding.share) == (5, 0.23, 0.24)
    assert (rules.stripes.file_bytes, rules.stripes.nodes) == (2**31, 16)
    assert (rules.alike.nodes, rules.alike.share, rules.stale.age_s) == (7, 0.26, 7200)
    assert rules.saved.unfinished_s == 77
    saves = moved.saves
    assert (saves.node_mtbf_s, saves.possible_bytes_per_s) == (5600 * 3600, 40e9)
    assert set(data) == set(config.Thresholds.__dataclass_fields__)
