"""Whole stages through every engine while something breaks: verified, or an honest error."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.staging.stage import s3_client
from slurm_io.staging.stage.engines.rsync import Rsync
from slurm_io.staging.stage.engines.s5cmd import S5cmd
from slurm_io.staging.stage.run import stage
from tests.labs.fault_proxy import Fault
from tests.labs.s3_server import S3Server
from tests.staging.stage.kit import SIZES, Site, path_source
from tests.staging.stage.reached import honest, reached, upload
from tests.staging.stage.stores import PREFIX

LARGE = "a/large.tar"
LARGE_BYTES = 3_000_000
WITH_LARGE = SIZES | {LARGE: LARGE_BYTES}
ENGINES = ("rsync", "s5cmd", "boto")
QUICK_S = 2

each_engine = pytest.mark.parametrize("engine", ENGINES)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall must not take a minute."""
    monkeypatch.setattr(Rsync, "silence_s", QUICK_S)
    monkeypatch.setattr(S5cmd, "silence_s", QUICK_S)
    monkeypatch.setattr(s3_client, "READ_S", QUICK_S)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.made(tmp_path, WITH_LARGE)


@each_engine
def test_without_faults(
    engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reached(engine, site, server, monkeypatch) as way:
        answer = site.stage(sources=(way.source,), engine=engine)
    assert answer.state == "ready", answer
    honest(site, answer)
    assert answer.copied_bytes == sum(WITH_LARGE.values())


@each_engine
@pytest.mark.parametrize("kind", ["cut", "reset", "flip", "stall"])
def test_a_fault_in_flight_is_survived(
    kind: str, engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens once, in the middle of the large file."""
    with reached(engine, site, server, monkeypatch) as way:
        way.proxy.spoil(Fault(kind, at=1_500_000))  # type: ignore[arg-type]
        answer = site.stage(sources=(way.source,), engine=engine)
        assert way.proxy.struck == 1
    assert answer.state == "ready", answer
    honest(site, answer)


@each_engine
@pytest.mark.parametrize("kind", ["cut", "flip"])
def test_a_link_that_always_fails_is_said(
    kind: str, engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "TRIES", 2)
    with reached(engine, site, server, monkeypatch) as way:
        way.proxy.spoil(Fault(kind, at=700_000), times=10**6)  # type: ignore[arg-type]
        answer = site.stage(sources=(way.source,), engine=engine)
        assert way.proxy.struck >= 1
    honest(site, answer)
    assert answer.state != "ready" or engine == "rsync", "only rsync goes on behind the fault"


@each_engine
def test_a_source_of_other_bytes_is_refused(
    engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same name, same length; the object or file was written anew before we came."""
    with reached(engine, site, server, monkeypatch) as way:
        way.change(LARGE, os.urandom(LARGE_BYTES))
        answer = site.stage(sources=(way.source,), engine=engine)
    assert answer.state != "ready"
    assert [failure.path for failure in answer.failed] == [LARGE]
    honest(site, answer)


@each_engine
def test_a_source_changed_while_it_is_read(
    engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reached(engine, site, server, monkeypatch) as way:
        changed = []

        def change(progress: object) -> None:
            if not changed:
                changed.append(True)
                way.change(LARGE, os.urandom(LARGE_BYTES))

        answer = stage(site.order(sources=(way.source,), engine=engine), change)
    honest(site, answer)


@each_engine
def test_a_bad_source_beside_a_good_one(
    engine: str, site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one source cannot give comes from the other."""
    good = site.folder / "good"
    shutil.copytree(site.source, good)
    with reached(engine, site, server, monkeypatch) as way:
        way.change(LARGE, os.urandom(LARGE_BYTES))
        sources = (replace(way.source, label="bad"), path_source(good, "good"))
        answer = site.stage(sources=sources, engine=engine)
    assert answer.state == "ready", answer
    honest(site, answer)


def test_a_limit_takes_the_engine_that_can_keep_it(
    site: Site, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the two for S3, s5cmd comes first and cannot."""
    with reached("boto", site, server, monkeypatch) as way:
        answer = site.stage(sources=(way.source,), bandwidth_bytes_s=100_000_000)
        assert answer.state == "ready", answer
        record = site.record()
        assert record is not None and record.method == "boto"


def test_the_prefix_is_part_of_the_address(site: Site, server: S3Server) -> None:
    bucket = upload(site, server)
    assert bucket.source.where.endswith(PREFIX)
