"""Another version in place, extra files, repair: what changes, what stays, what the record says."""

from pathlib import Path

import pytest

from slurm_io.errors import HostError, ManifestError
from slurm_io.staging.stage import moving
from tests.labs.fault_kit import fill, flip, manifest_of, same_mtime
from tests.staging.stage.kit import SIZES, Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


def test_extra_files_stay_and_make_it_degraded(site: Site) -> None:
    (site.target / "a").mkdir(parents=True)
    (site.target / "a/old.tar").write_bytes(b"x")
    answer = site.stage()
    assert (answer.state, answer.exit_code) == ("degraded", 1)
    assert answer.not_done == ("extra: 'a/old.tar'",)
    record = site.record()
    assert record is not None
    assert record.state == "degraded"
    assert (site.target / "a/old.tar").exists()


def test_extra_files_go_on_demand(site: Site) -> None:
    (site.target / "old/deep").mkdir(parents=True)
    (site.target / "old/deep/x").write_bytes(b"x")
    answer = site.stage(delete_extra=True)
    assert answer.state == "ready"
    assert not (site.target / "old").exists()


def test_another_version_in_place(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.stage()
    unchanged = (site.target / "a/000.tar").stat().st_ino
    fill(site.source, {"c/new": 999})
    with (site.source / "a/001.tar").open("r+b") as file:
        file.write(b"another version")
    site.publish(manifest_of(site.source, {**SIZES, "c/new": 999}))
    said = []
    genuine = moving.copy_all

    def watched(*arguments: object) -> None:
        said.append(site.record())
        genuine(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(moving, "copy_all", watched)
    answer = site.stage()
    (record,) = said
    assert record is not None
    assert (record.state, record.table) == ("copying", None)
    assert (answer.state, answer.copied_files) == ("ready", 2)
    assert (site.target / "a/000.tar").stat().st_ino == unchanged
    assert site.truth()


def test_the_record_stops_being_ready_before_the_first_file_changes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.stage()
    (site.target / "a/000.tar").unlink()

    def die(*arguments: object) -> None:
        raise OSError(5, "killed here")

    monkeypatch.setattr(moving, "copy_all", die)
    with pytest.raises(HostError):
        site.stage()
    assert not site.says_ready()


def test_a_repair_list_is_all_that_is_touched(site: Site) -> None:
    site.stage()
    with same_mtime(site.target / "a/000.tar"):
        flip(site.target / "a/000.tar", 9)
    (site.target / "b/000.tar").unlink()
    answer = site.stage(repair=frozenset({"a/000.tar"}))
    assert (answer.state, answer.copied_files, answer.repaired_files) == ("failed", 1, 1)
    assert "b/000.tar" in answer.text
    assert not (site.target / "b/000.tar").exists()
    assert site.stage().state == "ready"


def test_a_listed_file_is_looked_at_whatever_its_stamp_says(site: Site) -> None:
    site.stage()
    flip(site.target / "a/000.tar", 200_000)
    site.bench().restamp("a/000.tar")  # as rot below the file system
    assert site.stage().copied_files == 0
    assert not site.truth()
    answer = site.stage(repair=frozenset({"a/000.tar", "a/001.tar"}))
    assert (answer.state, answer.copied_files) == ("ready", 1)
    assert site.truth()


def test_a_repair_list_of_another_version_is_refused(site: Site) -> None:
    with pytest.raises(ManifestError, match="does not have"):
        site.stage(repair=frozenset({"nowhere"}))
