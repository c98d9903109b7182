"""kill -9 of the staging process at random moments, through real servers; then it goes on."""

import multiprocessing
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.run import stage
from tests.labs.fault_proxy import Fault, FaultProxy
from tests.labs.s3_server import S3Server
from tests.staging.stage.kit import SIZES, Site
from tests.staging.stage.reached import honest, reached

LARGE_BYTES = 3_000_000
WITH_LARGE = SIZES | {"a/large.tar": LARGE_BYTES, "b/large.tar": LARGE_BYTES}
MOMENTS_LONG = 30
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


def killed_after(order: StageOrder, proxy: FaultProxy, count: int) -> bool:
    """Run a stage and kill it when so many bytes have come; False when it ended before."""
    proxy.spoil(Fault("stall", at=count), times=1000)
    proxy.forget()
    process = SPAWN.Process(target=stage, args=(order,))
    process.start()
    while not proxy.wait_struck(0.05) and process.is_alive():
        pass
    was_alive = process.is_alive()
    process.kill()
    process.join()
    return was_alive


def go_through(
    engine: str, moments: int, folder: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = random.Random(f"{engine} {moments}")
    site = Site.made(folder, WITH_LARGE)
    with reached(engine, site, server, monkeypatch) as way:
        order = site.order(sources=(way.source,), engine=engine)
        killed = 0
        for _ in range(moments):
            count = int(LARGE_BYTES ** numbers.uniform(0.2, 1.0))
            killed += killed_after(order, way.proxy, count)
            assert not site.says_ready() or site.truth(), f"false ready after {count} bytes"
            if numbers.random() < 0.3:  # else the next one starts from what this one has left
                way.proxy.spoil(Fault("stall", at=0), times=0)
                answer = stage(order)
                assert answer.state == "ready", answer
                honest(site, answer)
                shutil.rmtree(site.target)
                shutil.rmtree(order.state_dir)
        assert killed >= max(1, moments // 2), "too few were killed in the middle to say anything"
        way.proxy.spoil(Fault("stall", at=0), times=0)
        answer = stage(order)
    assert answer.state == "ready", answer
    honest(site, answer)


@pytest.mark.parametrize("engine", ["rsync", "boto", "s5cmd"])
def test_killed_at_some_moments(
    engine: str, tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_through(engine, 2 if engine == "rsync" else 1, tmp_path, server, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("engine", ["rsync", "boto", "s5cmd"])
def test_killed_at_many_moments(
    engine: str, tmp_path: Path, server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_through(engine, MOMENTS_LONG, tmp_path, server, monkeypatch)
