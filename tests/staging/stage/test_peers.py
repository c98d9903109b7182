"""A stage from real peers: rsync daemons of neighbours, one of which stops midway."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.stage.engines.rsync import Rsync
from slurm_io.staging.stage.model import SourceSpec
from tests.labs.fault_kit import fill, flip
from tests.staging.stage.kit import SIZES, Site
from tests.staging.stage.peers import served, serving_of

pytestmark = pytest.mark.skipif(Rsync.missing() is not None, reason="needs rsync")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path)


@contextlib.contextmanager
def peers(*folders: Path) -> Iterator[tuple[SourceSpec, ...]]:
    """A peer for each folder."""
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(served(serving_of(folder))) for folder in folders]
        yield tuple(replace(peer, label=f.name) for peer, f in zip(found, folders, strict=True))


def test_two_peers(site: Site, tmp_path: Path) -> None:
    fill(tmp_path / "other", SIZES)
    with peers(site.source, tmp_path / "other") as sources:
        answer = site.stage(sources=sources)
    assert answer.state == "ready", answer
    assert site.truth()
    record = site.record()
    assert record is not None
    assert record.method == "rsync"
    assert sum(answer.by_source.values()) == sum(SIZES.values())


def test_a_peer_with_a_rotten_file(site: Site, tmp_path: Path) -> None:
    fill(tmp_path / "other", SIZES)
    flip(tmp_path / "other/a/000.tar", 9)
    with peers(tmp_path / "other") as (rotten,):
        assert site.stage(sources=(rotten,)).state == "failed"
        assert not site.says_ready()
        with peers(site.source) as (good,):
            answer = site.stage(sources=(rotten, good))
    assert (answer.state, answer.copied_files) == ("ready", 1)
    assert site.truth()


def test_a_peer_that_is_gone(site: Site, tmp_path: Path) -> None:
    with peers(site.source) as (gone,):
        pass
    with peers(site.source) as (good,):
        answer = site.stage(sources=(gone, good))
    assert answer.state == "ready", answer
    assert site.truth()


def test_a_truncated_file_of_an_earlier_run_is_gone_on_with(site: Site) -> None:
    room = site.target / ".slurm_io_stage"
    (room / "0/a").mkdir(parents=True)
    room.chmod(0o700)
    (room / "version").write_text(site.manifest.header.content_id)
    beginning = (site.source / "a/000.tar").read_bytes()[:200_000]
    (room / "0/a/000.tar").write_bytes(beginning[:-1] + b"X")
    with peers(site.source) as sources:
        answer = site.stage(sources=sources)
    assert answer.state == "ready", answer
    assert site.truth()
    assert os.listdir(site.target) != []  # noqa: PTH208
