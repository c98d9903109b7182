"""torch.save, torch.load and distributed checkpoints under the hook."""

from __future__ import annotations

import itertools

import pytest

from tests.hook.scripts import Job

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SAVES = """
    import io, os, pathlib, slurm_io_hook, threading, warnings
    warnings.simplefilter("ignore")
    import torch
    big = torch.zeros(1_000_000)
    torch.save(big, "big.pt")
    torch.save(torch.zeros(10), pathlib.Path("small.pt"))
    with open("open.pt", "wb") as file: torch.save(torch.zeros(10), file)
    torch.save(big, io.BytesIO())                        # memory, no storage
    assert torch.equal(torch.load("big.pt"), big)
    with open("small.pt", "rb") as file: torch.load(file)
    try: torch.load("absent.pt")
    except FileNotFoundError: pass
    else: raise SystemExit("not raised")
    list(slurm_io_hook.watch([1]))
    thread = threading.Thread(target=torch.save, args=(big, "thread.pt"))
    thread.start(); thread.join()
    print(os.path.getsize("big.pt"), os.path.getsize("small.pt"), os.path.getsize("open.pt"))
"""

DISTRIBUTED = """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import FileSystemWriter

    def main():
        state = {"a": torch.zeros(100_000), "b": torch.ones(1000), "c": {"step": 3}}
        dcp.save(state, checkpoint_id="one", no_dist=True)
        writer = FileSystemWriter("two", thread_count=2, single_file_per_rank=False)
        dcp.save(state, storage_writer=writer, no_dist=True)
        dcp.load(state, checkpoint_id="one", no_dist=True)
        os.environ.update(MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1")
        store = torch.distributed.FileStore("store", 1)
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        dcp.async_save(state, checkpoint_id="three").result()
        torch.distributed.destroy_process_group()
        try: dcp.save(state, checkpoint_id="/proc/nowhere", no_dist=True)
        except BaseException as error: print(type(error).__name__)

    if __name__ == "__main__":
        main()
"""


def test_saves_and_loads_with_bytes_and_order(job: Job) -> None:
    big, small, opened = map(int, job.ok(SAVES).split())
    ring = job.ring()
    path = {name: {"path": str(job.folder / name)} for name in ("big.pt", "small.pt", "open.pt")}
    saves = ring.of_kind("ckpt_save")
    assert [(s.text, s.bytes) for s in saves] == [
        (path["big.pt"], big), (path["small.pt"], small), (path["open.pt"], opened),
    ]  # fmt: skip
    loads = ring.of_kind("load")
    assert [(load.text.get("path"), load.bytes) for load in loads[:2]] == [
        (path["big.pt"]["path"], big), (path["small.pt"]["path"], small),
    ]  # fmt: skip
    assert loads[2].failed
    assert loads[2].text["error"] == "FileNotFoundError"
    in_order = saves + loads
    assert all(a.end <= b.start for a, b in itertools.pairwise(in_order))
    assert all(e.blocking and e.main for e in in_order)
    (background,) = ring.of_kind("ckpt_background")
    assert (background.blocking, background.main) == (False, False)
    assert background.bytes == (job.folder / "thread.pt").stat().st_size


def test_distributed_saves_are_one_event_each(job: Job) -> None:
    failure = job.ok(DISTRIBUTED).strip()
    ring = job.ring()
    saves = ring.of_kind("ckpt_save")
    folders = [str(job.folder / name) for name in ("one", "two")]
    assert [s.text["path"] for s in saves] == [*folders, "/proc/nowhere"]
    assert [s.failed for s in saves] == [False, False, True]
    assert saves[-1].text["error"] == failure
    (load,) = ring.of_kind("load")
    assert load.text["path"] == folders[0]
    (blocking,) = ring.of_kind("ckpt_async")
    (background,) = ring.of_kind("ckpt_background")
    three = str(job.folder / "three")
    assert blocking.text["path"] == background.text["path"] == three
    assert blocking.blocking
    assert not background.blocking
    assert blocking.start <= background.start <= background.end
