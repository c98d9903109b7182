"""Settings survive JSON, and spike windows lie where the arithmetic says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.labs.slowfs_faults import NS, spike_at
from tests.labs.slowfs_settings import SlowFsSettings, matches

SPIKY = SlowFsSettings(spike_period_s=4.0, spike_duration_s=1.0, spike_offset_s=2.0)


def test_settings_survive_json() -> None:
    settings = SlowFsSettings(
        read_latency_s=0.1,
        file_latency_s={"a/*": 1.0},
        hang_globs=("x", "y"),
        xattrs={"*": {"lustre.lov": "d00b"}},
    )
    assert SlowFsSettings.from_json(settings.to_json()) == settings


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="read_latency"):
        SlowFsSettings.from_json('{"read_latency": 1}')


@pytest.mark.parametrize(
    ("at_s", "window_s"),
    [(1.9, None), (2.0, (2, 3)), (2.9, (2, 3)), (3.0, None), (6.5, (6, 7)), (7.5, None)],
)
def test_spike_windows(at_s: float, window_s: tuple[int, int] | None) -> None:
    spike = spike_at(SPIKY, 0, int(at_s * NS))
    found = None if spike is None else (spike.start_ns // NS, spike.end_ns // NS)
    assert found == window_s


def test_no_period_means_no_spikes() -> None:
    assert spike_at(SlowFsSettings(spike_duration_s=1.0), 0, NS) is None


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_a_spike_window_holds_the_moment_that_asked(since_ns: int, later_ns: int) -> None:
    spike = spike_at(SPIKY, since_ns, since_ns + later_ns)
    if spike is not None:
        assert spike.start_ns <= since_ns + later_ns < spike.end_ns
        assert spike.end_ns - spike.start_ns == NS


def test_globs_match_below_the_mount() -> None:
    assert matches("/train/a.bin", ("train/*",))
    assert matches("/", ("*",))
    assert not matches("/val/a.bin", ("train/*",))
