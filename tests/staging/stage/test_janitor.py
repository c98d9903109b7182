"""What killed copies left goes, by strict rules; nothing else does."""

import os
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.staging import record as records
from slurm_io.staging.stage import janitor
from slurm_io.staging.stage.debris import is_old_debris
from slurm_io.staging.stage.planning import plan
from slurm_io.staging.stage.room import NAME as ROOM
from tests.labs.fault_kit import fill
from tests.staging.stage.kit import SIZES, Site

DEBRIS = ("a/.000.tar.aB3xZ9", "a/000.tar1234567", "b/000.tar.0a1b2c3d.partial", "a/.~tmp~/x")
STAYS = ("a/notes.tmp", "a/.config.sample", "a/.nfs00000000deadbeef0000", "theirs/x", ".snapshot/y")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = Site.made(tmp_path)
    made.stage()
    fill(made.target, dict.fromkeys((*DEBRIS, *STAYS), 8192))
    return made


def test_old_debris_goes_and_nothing_else(site: Site) -> None:
    order = site.order(debris_age_s=0)
    found = janitor.find(order)
    assert set(found.paths) == {*DEBRIS[:3], "a/.~tmp~"}
    assert found.total_bytes >= 3 * 8192
    assert all((site.target / path).exists() for path in DEBRIS)
    cleared = janitor.clean(order)
    assert (set(cleared.removed), cleared.problems) == (set(found.paths), ())
    assert not any((site.target / path).exists() for path in DEBRIS)
    assert all((site.target / path).exists() for path in (*STAYS, *SIZES))


def test_young_debris_stays(site: Site) -> None:
    assert janitor.find(site.order(debris_age_s=3600)).paths == ()
    assert janitor.clean(site.order(debris_age_s=3600)).removed == ()
    assert all((site.target / path).exists() for path in DEBRIS)


def test_a_file_of_the_manifest_never_goes(tmp_path: Path) -> None:
    names = {".000.tar.aB3xZ9": 10, "000.tar": 10, "000.tar1234567": 10}
    site = Site.made(tmp_path, names)
    site.stage()
    assert janitor.clean(site.order(debris_age_s=0)).removed == ()
    assert site.truth()


def test_the_room_of_a_killed_copy_goes_when_it_is_old(site: Site) -> None:
    (site.target / ROOM / "0/a").mkdir(parents=True)
    (site.target / ROOM).chmod(0o700)
    (site.target / ROOM / "0/a/000.tar").write_bytes(bytes(5000))
    assert ROOM not in janitor.find(site.order(debris_age_s=3600)).paths
    assert ROOM in janitor.clean(site.order(debris_age_s=0)).removed
    assert site.room_is_gone()


def test_links_are_not_followed(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    fill(outside, {"keep": 10, "deep/keep": 10})
    (site.target / "b/.~tmp~").mkdir()
    (site.target / "b/.~tmp~/link").symlink_to(outside)
    (site.target / "b/.rsync-partial").symlink_to(outside)
    janitor.clean(site.order(debris_age_s=0))
    assert not (site.target / "b/.~tmp~").exists()
    assert sorted(os.listdir(outside)) == ["deep", "keep"]  # noqa: PTH208


def test_nothing_is_cleaned_under_a_running_copy(site: Site) -> None:
    state_dir = os.fspath(site.folder / "state")
    with records.locked(state_dir, "demo", "local"), pytest.raises(HostError):
        janitor.clean(site.order(debris_age_s=0))
    assert all((site.target / path).exists() for path in DEBRIS)


def test_a_stage_removes_old_debris_and_a_plan_counts_it(site: Site) -> None:
    (site.target / "index.json").unlink()
    order = site.order(debris_age_s=0)
    assert plan(order).debris_bytes >= 3 * 8192
    site.stage(debris_age_s=0)
    assert not any((site.target / path).exists() for path in DEBRIS)


def test_a_dataset_that_is_not_there(tmp_path: Path) -> None:
    site = Site.made(tmp_path)
    assert janitor.find(site.order()).paths == ()
    assert janitor.clean(site.order()).removed == ()


def test_a_known_name_is_no_debris_whatever_it_looks_like(tmp_path: Path) -> None:
    file = tmp_path / ".x.tar.aB3xZ9"
    file.touch()
    facts, later_s = file.lstat(), file.lstat().st_ctime + 1
    assert is_old_debris(b"a/.x.tar.aB3xZ9", facts, {b"x.tar"}, later_s)
    assert not is_old_debris(b"a/.x.tar.aB3xZ9", facts, {b".x.tar.aB3xZ9"}, later_s)
    assert not is_old_debris(b"a/.x.tar.aB3xZ9", facts, {b"x.tar"}, facts.st_ctime - 1)
