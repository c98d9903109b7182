"""The site's ``[thresholds]`` decide, not only the defaults."""

from __future__ import annotations

from slurm_io import config
from slurm_io.analysis.thresholds import Thresholds, of_site


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
    }
    site = config.parse({"thresholds": data}).thresholds
    moved = of_site(site)
    assert (moved.shares.data_storage, moved.shares.checkpoint) == (0.5, 0.25)
    assert (moved.shares.data_unknown, moved.shares.together) == (0.5, 0.75)
    spread = moved.variance
    assert (spread.p99_over_p50, spread.p99_minus_p50_s, spread.p99_minus_p50_of_p50) == (7, 9, 2)
    assert set(data) == set(config.Thresholds.__dataclass_fields__)
