"""The target is full, hostile or in the way: nothing outside is touched, nothing false is said."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.errors import HostError, ManifestError
from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.model import Manifest
from slurm_io.staging.stage import lane
from slurm_io.staging.stage.planning import plan
from slurm_io.staging.stage.room import NAME as ROOM
from tests.labs.fault_kit import fill
from tests.staging.stage.kit import SIZES, Site

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


@pytest.fixture
def small(site: Site) -> Iterator[Site]:
    """Its target is a file system of 700 kB, too small for the dataset's 1 MB."""
    site.target.mkdir(parents=True)
    options = ["-o", "size=700k,mode=755"]
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", site.target], check=True)
    yield site
    subprocess.run(["umount", "-l", site.target], check=True)


@root
def test_what_does_not_fit_is_not_begun(small: Site) -> None:
    planned = plan(small.order())
    assert planned.exit_code == 3
    assert planned.short_bytes > 250_000
    answer = small.stage()
    assert (answer.state, answer.exit_code) == ("failed", 3)
    assert "does not fit" in answer.text
    assert [*small.target.iterdir()] == []


@root
def test_a_target_that_fills_up_midway(small: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_io.staging.stage import planning
    from slurm_io.staging.stage.space import Space

    monkeypatch.setattr(planning, "space_at", lambda *_: Space(1 << 40, 0, 0))
    answer = small.stage()
    assert (answer.state, answer.exit_code) == ("failed", 3)
    assert "No space left" in answer.text
    assert not small.says_ready()
    record = small.record()
    assert record is not None
    assert record.state == "failed"
    subprocess.run(["mount", "-o", "remount,size=20m", small.target], check=True)
    again = small.stage()
    assert again.state == "ready"
    assert again.copied_files == len(SIZES) - answer.copied_files


@root
def test_inodes_that_do_not_suffice(site: Site) -> None:
    site.target.mkdir(parents=True)
    options = "size=20m,mode=755,nr_inodes=20"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", site.target], check=True)
    try:
        planned = plan(site.order())
        assert (planned.exit_code, planned.short_bytes) == (3, 0)
        assert planned.short_inodes > 10
        assert "inodes" in site.stage().text
    finally:
        subprocess.run(["umount", "-l", site.target], check=True)


def test_a_room_is_nothing_extra(site: Site) -> None:
    site.stage()
    (site.target / ROOM / "0").mkdir(parents=True)
    (site.target / ROOM / "0/part").write_bytes(b"x")
    assert site.truth()
    assert site.bench().verify(1).answer == "OK"


@root
def test_the_headroom_of_the_site_counts(site: Site) -> None:
    planned = plan(site.order(free_share=1.0))
    assert planned.short_bytes >= planned.copy_bytes
    assert planned.exit_code == 3


def test_a_manifest_that_leaves_the_folder_is_refused(site: Site) -> None:
    for path in ("../outside", "/etc/passwd", "a/../../x"):
        files = [replace(site.manifest.files[0], path=path)]
        line = (site.folder / "demo.jsonl").read_bytes().split(b"\n")[0]
        row = b'{"path": "%s", "size_bytes": 1}' % path.encode()
        (site.folder / "bad.jsonl").write_bytes(line + b"\n" + row + b"\n")
        with pytest.raises(ManifestError):
            site.stage(manifest=os.fspath(site.folder / "bad.jsonl"))
        assert files
    assert not site.target.exists()


def test_names_of_any_bytes(tmp_path: Path) -> None:
    names = ["a\nb/c\td", "\udcff\udcfe", " ", "-rf", "ünï", "x" * 250, ".hidden/.file", "*?[x]"]
    site = Site.made(tmp_path, dict.fromkeys(names, 5000))
    assert site.stage().state == "ready"
    assert site.truth()


@pytest.mark.parametrize("where", ["a", "b"])
def test_a_link_in_a_folders_place_leads_nowhere(where: str, site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    site.target.mkdir(parents=True)
    (site.target / where).symlink_to(outside)
    answer = site.stage()
    assert (answer.state, answer.exit_code) == ("failed", 3)
    assert "--delete-extra" in answer.text
    assert list(outside.iterdir()) == []
    assert site.stage(delete_extra=True).state == "ready"
    assert list(outside.iterdir()) == []
    assert not (site.target / where).is_symlink()


def test_a_link_in_a_files_place_is_replaced(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "precious"
    outside.write_bytes(b"precious")
    (site.target / "a").mkdir(parents=True)
    (site.target / "a/000.tar").symlink_to(outside)
    assert site.stage().state == "ready"
    assert outside.read_bytes() == b"precious"
    assert not (site.target / "a/000.tar").is_symlink()


def test_a_folder_in_a_files_place_is_named(site: Site) -> None:
    (site.target / "a/000.tar/x").mkdir(parents=True)
    answer = site.stage()
    assert answer.state == "failed"
    assert "'a/000.tar' is a folder" in answer.text
    assert site.stage(delete_extra=True).state == "ready"


def test_a_link_swapped_in_while_files_are_named(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    genuine = lane.give_name

    def swapped(slot: object, tree: object, path: str, stamp: object) -> object:
        if path.startswith("b/") and not (site.target / "b").exists():
            (site.target / "b").symlink_to(outside)
        return genuine(slot, tree, path, stamp)  # type: ignore[arg-type]

    monkeypatch.setattr(lane, "give_name", swapped)
    answer = site.stage()
    assert answer.state == "failed"
    assert list(outside.iterdir()) == []
    assert not site.says_ready()


@pytest.mark.parametrize("kind", ["link", "file", "open to others"])
def test_a_false_room_is_refused(kind: str, site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    site.target.mkdir(parents=True)
    room = site.target / ROOM
    if kind == "link":
        room.symlink_to(outside)
    elif kind == "file":
        room.write_bytes(b"")
    else:
        room.mkdir()
        room.chmod(0o777)
    with pytest.raises(HostError, match=ROOM):
        site.stage()
    assert list(outside.iterdir()) == []
    assert not site.says_ready()


@root
def test_a_room_made_by_a_user_is_refused(site: Site) -> None:
    (site.target / ROOM).mkdir(parents=True, mode=0o700)
    os.chown(site.target / ROOM, 65534, 65534)
    with pytest.raises(HostError, match="not ours"):
        site.stage()


@root
def test_a_user_who_owns_the_folder_swaps_a_file_after_it_was_named(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.target.mkdir(parents=True)
    os.chown(site.target, 65534, 65534)
    genuine = lane.give_name

    def swapped(slot: object, tree: object, path: str, stamp: object) -> object:
        named = genuine(slot, tree, path, stamp)  # type: ignore[arg-type]
        if path == "index.json":
            (site.target / "theirs").write_bytes(b"x" * SIZES["index.json"])
            (site.target / "theirs").rename(site.target / path)
        return named

    monkeypatch.setattr(lane, "give_name", swapped)
    answer = site.stage()
    assert answer.state == "failed"
    assert "index.json" in answer.text
    assert not site.says_ready()


@root
def test_a_source_of_a_users_brings_no_setuid_file(site: Site) -> None:
    for path in SIZES:
        os.chown(site.source / path, 65534, 65534)
        (site.source / path).chmod(0o6777)
    assert site.stage().state == "ready"
    for path in SIZES:
        facts = (site.target / path).stat()
        assert (facts.st_mode & 0o7777, facts.st_uid) == (0o644, 0)


def test_a_link_at_the_source_is_not_followed_out(site: Site, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    fill(tmp_path, {"secret": 300_000})
    (site.source / "a/000.tar").unlink()
    (site.source / "a/000.tar").symlink_to(secret)
    bare = [replace(entry, digest=None, chunks=(), ends=None) for entry in site.manifest.files]
    header = replace(site.manifest.header, content_id=content_id_of(bare))
    site.publish(Manifest(header, bare))
    answer = site.stage(accept_sizes=True)
    assert answer.state == "failed"
    assert [failure.path for failure in answer.failed] == ["a/000.tar"]


def test_a_mount_that_is_not_there_is_not_filled(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slurm_io.staging.stage import run

    monkeypatch.setattr(run, "absent_mount", lambda path: "/local/nvme")
    with pytest.raises(HostError, match="nothing is mounted"):
        site.stage()
    assert not site.target.exists()
