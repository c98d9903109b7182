"""``profile=``: what a job that wants to be watched less, or not, gets."""

from __future__ import annotations

import json

import pytest

from slurm_io.model import SamplerSpec
from tests.labs.slurmd_room import SlurmdRoom

pytestmark = pytest.mark.root


@pytest.mark.parametrize(
    ("profile", "site_hz", "told_hz"),
    [("light", 20.0, 2.0), ("light", 1.0, 1.0), ("full", 20.0, 20.0)],
)
def test_a_light_profile_looks_less_often(
    room: SlurmdRoom, profile: str, site_hz: float, told_hz: float
) -> None:
    room.write_config(f"waits_hz = {site_hz}")
    assert room.prolog(SLURM_JOB_COMMENT=f"slurm-io: profile={profile}") == 0
    spec = SamplerSpec.from_dict(json.loads((room.spool() / "sampler.json").read_text()))
    assert spec.waits_hz == told_hz


@pytest.mark.parametrize(
    ("profile", "site", "share"),
    [("full", "", 0.007), ("full", "stacks_share = 0.002", 0.002),
     ("full", "stacks_share = 0", 0.0), ("light", "stacks_share = 0.002", 0.0),
     (None, "stacks_share = 0.002", 0.0)],
)  # fmt: skip
def test_stacks_are_recorded_for_those_who_ask_for_the_full_profile(
    room: SlurmdRoom, profile: str | None, site: str, share: float
) -> None:
    room.write_config(site)
    comment = f"slurm-io: profile={profile}" if profile else ""
    assert room.prolog(SLURM_JOB_COMMENT=comment) == 0
    spec = SamplerSpec.from_dict(json.loads((room.spool() / "sampler.json").read_text()))
    assert (spec.stacks_share, spec.stacks_as_root) == (share, False)


def test_off_starts_no_sampler_and_puts_no_hook_on_the_path(room: SlurmdRoom) -> None:
    room.write_config()
    assert room.prolog(SLURM_JOB_COMMENT="slurm-io: profile=off") == 0
    assert not room.spool().exists()
    assert (room.runtime() / "hook_path").read_text().strip() == ""
