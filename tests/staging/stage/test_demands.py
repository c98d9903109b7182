"""What the manifest's header requires of the place is looked at before anything is copied."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.stage.planning import plan
from slurm_io.staging.verify.identity import mount_of, mounts_now
from tests.staging.stage.kit import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


def requiring(site: Site, **demands: Any) -> None:
    header = replace(site.manifest.header, requires=demands)
    site.publish(Manifest(header, site.manifest.files))


def fstype_of(folder: Path) -> str:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        mount = mount_of(descriptor, mounts_now())
    finally:
        os.close(descriptor)
    assert mount is not None
    return mount.fstype


def test_space_that_is_not_there_is_missed_before_the_first_byte(site: Site) -> None:
    requiring(site, free_bytes=1 << 60)
    planned = plan(site.order())
    assert planned.exit_code == 3
    assert planned.problem is not None and "requires 1.15 EB free" in planned.problem
    answer = site.stage()
    assert (answer.state, answer.exit_code) == ("failed", 3)
    assert not any(site.target.rglob("*.tar"))


def test_what_is_kept_already_takes_its_part_of_the_space(site: Site) -> None:
    site.stage()
    requiring(site, free_bytes=1 << 60)
    assert site.stage().state == "ready"  # nothing is to be copied: nothing is asked
    free = plan(site.order()).free_bytes
    assert free is not None
    (site.target / "b/000.tar").unlink()
    requiring(site, free_bytes=free // 2)
    assert plan(site.order()).problem is None


def test_another_file_system_than_the_ones_allowed_is_refused(site: Site) -> None:
    requiring(site, fstypes=["lustre", "beegfs"])
    problem = plan(site.order()).problem
    assert problem is not None
    assert "requires a file system of lustre, beegfs" in problem
    assert fstype_of(site.folder) in problem
    requiring(site, fstypes=["lustre", fstype_of(site.folder)])
    assert plan(site.order()).problem is None
    assert site.stage().state == "ready"
