"""Delivery: whole or not at all, as the user, whatever lies in the way."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import StoreError
from slurm_io.store import deliver as deliver_module
from slurm_io.store.deliver import deliver, open_source
from slurm_io.store.markers import arrived
from slurm_io.store.reader import open_job
from slurm_io.store.run_as import run_as
from slurm_io.store.seal import seal_spool
from tests.store.rows import LOG, STEPS, plain_row, write_stream

UID, GID = 64123, 64124
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    folder = tmp_path / "spool" / "n1"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "meta.json").write_text('{"schema": 1, "node": "n1"}')
    (folder / "sampler.json").write_text('{"ring_dir": "private"}')
    write_stream(folder / "log.arrows", LOG, [[plain_row(LOG, ts)] for ts in (1, 2, 3)])
    seal_spool(folder)
    write_stream(folder / "steps.arrows", STEPS, [[plain_row(STEPS, 9)]])  # sealing failed for it
    return folder


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_delivered_node_reads_as_its_spool(spool: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    done = deliver(spool, store, "n1", clean=False, missing=("gpu",))
    assert names_in(store) == ["DONE.n1", "node=n1"]
    assert names_in(store / "node=n1") == ["log-0000.parquet", "meta.json", "steps.arrows"]
    assert arrived(store) == {"n1"}
    told = json.loads((store / "DONE.n1").read_text())
    assert (told["clean"], told["missing"]) == (False, ["gpu"])
    assert done["files"] == 3
    assert done["bytes"] == sum(p.stat().st_size for p in (store / "node=n1").iterdir())
    for name in ("log", "steps"):
        delivered = open_job(store).nodes["n1"].table(name)
        assert delivered.equals(open_job(spool).nodes["n1"].table(name))


def test_private_by_default(spool: Path, tmp_path: Path) -> None:
    deliver(spool, tmp_path / "store", "n1")
    for path in [tmp_path / "store", *(tmp_path / "store").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_second_delivery_replaces_the_first(spool: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    deliver(spool, store, "n1")
    (store / "node=n1" / "stale-0000.parquet").touch()
    deliver(spool, store, "n1")
    assert names_in(store) == ["DONE.n1", "node=n1"]
    assert "stale-0000.parquet" not in names_in(store / "node=n1")


def test_leavings_of_a_killed_delivery_go(spool: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    for name in ("node=n1.partial-00", "node=n1.old-00", "node=n10.partial-00"):
        (store / name).mkdir(parents=True)
    deliver(spool, store, "n1")
    assert names_in(store) == ["DONE.n1", "node=n1", "node=n10.partial-00"]


@pytest.mark.parametrize("failing", ["_copy_file", "_swap_in"])
def test_a_failed_delivery_shows_nothing(
    failing: str, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    deliver(spool, store, "n1")
    before = (store / "node=n1" / "log-0000.parquet").read_bytes()
    (store / "DONE.n1").unlink()

    def full(*_: object) -> int:
        raise OSError(122, "Disk quota exceeded")

    monkeypatch.setattr(deliver_module, failing, full)
    with pytest.raises(
        StoreError, match=r"cannot deliver to .*store: Disk quota exceeded"
    ) as caught:
        deliver(spool, store, "n1")
    assert "\n" not in str(caught.value)
    assert names_in(store) == ["node=n1"]
    assert (store / "node=n1" / "log-0000.parquet").read_bytes() == before


def in_the_way_link(store: Path, victim: Path) -> None:
    store.symlink_to(victim)


def in_the_way_file(store: Path, victim: Path) -> None:
    store.write_text("mine")


def in_the_way_pipe(store: Path, victim: Path) -> None:
    os.mkfifo(store)


def in_the_way_no_parent(store: Path, victim: Path) -> None:
    store.parent.rmdir()


@pytest.mark.parametrize(
    "prepare", [in_the_way_link, in_the_way_file, in_the_way_pipe, in_the_way_no_parent]
)
def test_a_store_that_is_no_folder(
    prepare: Callable[[Path, Path], None], spool: Path, tmp_path: Path
) -> None:
    victim, store = tmp_path / "victim", tmp_path / "work" / "store"
    victim.mkdir()
    store.parent.mkdir()
    prepare(store, victim)
    with pytest.raises(StoreError, match="store") as caught:
        deliver(spool, store, "n1")
    assert "\n" not in str(caught.value)
    assert list(victim.iterdir()) == []


@pytest.mark.parametrize("name", ["node=n1", "DONE.n1"])
def test_a_link_or_file_where_a_result_goes_is_replaced(
    name: str, spool: Path, tmp_path: Path
) -> None:
    store, victim = tmp_path / "store", tmp_path / "victim"
    store.mkdir()
    victim.mkdir()
    (victim / "keep").write_text("keep")
    for obstacle in ("link", "file"):
        if obstacle == "link":
            (store / name).symlink_to(victim)
        else:
            (store / name).write_text("mine")
        deliver(spool, store, "n1")
        assert names_in(victim) == ["keep"]
        assert open_job(store).nodes["n1"].table("log").num_rows == 3
        assert arrived(store) == {"n1"}
        for path in (store / "node=n1").iterdir():
            path.unlink()
        (store / "node=n1").rmdir()
        (store / "DONE.n1").unlink()


def test_an_old_copy_full_of_links_is_removed_without_following(
    spool: Path, tmp_path: Path
) -> None:
    store, victim = tmp_path / "store", tmp_path / "victim"
    victim.mkdir()
    (victim / "keep").write_text("keep")
    (store / "node=n1").mkdir(parents=True)
    (store / "node=n1" / "meta.json").symlink_to(victim / "keep")
    (store / "node=n1" / "deeper").symlink_to(victim)
    deliver(spool, store, "n1")
    assert names_in(victim) == ["keep"]
    assert not (store / "node=n1" / "deeper").exists()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_spool_that_is_not_what_it_should_be(kind: str, spool: Path, tmp_path: Path) -> None:
    if kind == "link":
        (spool / "block-0000.parquet").symlink_to("/etc/shadow")
    else:
        os.mkfifo(spool / "block-0000.parquet")
    with pytest.raises(StoreError, match="block-0000"):
        deliver(spool, tmp_path / "store", "n1")
    assert not (tmp_path / "store").exists()


def test_a_bad_node_name(spool: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no node name"):
        deliver(spool, tmp_path / "store", "../n1")


def deliver_as_user(spool: Path, store: Path, **options: Any) -> Any:
    """As the Epilog does it: root opens the spool, the user writes the store."""
    source = open_source(spool)
    try:
        return run_as(
            UID, GID, [], lambda: deliver(source, store, "n1", **options), keep_fds=source.fds()
        )
    finally:
        source.close()


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of the user's that the user can reach (pytest's own are closed to others)."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o711)
        (path / "home").mkdir()
        os.chown(path / "home", UID, GID)
        yield path / "home"


@pytest.mark.root
@needs_root
def test_root_opens_the_user_writes(spool: Path, home: Path) -> None:
    deliver_as_user(spool, home / "store")
    for path in [home / "store", *(home / "store").rglob("*")]:
        assert (path.stat().st_uid, path.stat().st_gid) == (UID, GID), path
    assert open_job(home / "store").table("log").num_rows == 3


@pytest.mark.root
@needs_root
def test_the_user_cannot_make_root_write_elsewhere(spool: Path, home: Path) -> None:
    target = home.parent / "root_owned"
    target.mkdir(0o755)
    (home / "store").mkdir()
    os.chown(home / "store", UID, GID)
    (home / "linked").symlink_to(target)
    with pytest.raises(StoreError, match="a file or a link is in the way"):
        deliver_as_user(spool, home / "linked")
    with pytest.raises(StoreError, match="Permission denied"):
        deliver_as_user(spool, target / "store")
    assert list(target.iterdir()) == []


@pytest.mark.root
@needs_root
def test_a_read_only_or_foreign_folder_is_one_line(spool: Path, home: Path) -> None:
    (home / "store").mkdir(mode=0o500)
    os.chown(home / "store", UID, GID)
    with pytest.raises(StoreError, match="Permission denied") as caught:
        deliver_as_user(spool, home / "store")
    assert "\n" not in str(caught.value)
    assert list((home / "store").iterdir()) == []


@pytest.mark.root
@needs_root
@pytest.mark.parametrize(("options", "reason"), [("size=4k", "No space"), ("ro", "Read-only")])
def test_a_full_or_read_only_file_system(
    options: str, reason: str, spool: Path, home: Path
) -> None:
    mount = home / "mnt"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"{options},mode=777", "tmpfs", mount]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs: {done.stderr.decode().strip()}")
    try:
        with pytest.raises(StoreError, match=reason) as caught:
            deliver_as_user(spool, mount / "store")
        assert "\n" not in str(caught.value)
        assert [path.name for path in mount.rglob("*") if path.name != "store"] == []
    finally:
        subprocess.run(["umount", mount], check=True)
