"""torch's DataLoader under the hook: each batch once, nothing from workers, protocol unaltered."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.hook.ring_reader import RingFile
from tests.hook.scripts import Job

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

MATRIX = """
    import json, os
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self): return 10
        def __getitem__(self, i):
            torch.load(os.environ["SAMPLE"])       # reading in a worker: never a record
            return i

    def combinations():
        yield dict(num_workers=0)
        for method in [os.environ["METHOD"]]:
            for persistent in (False, True):
                yield dict(num_workers=2, multiprocessing_context=method,
                           persistent_workers=persistent)

    if __name__ == "__main__":
        torch.save(1, os.environ["SAMPLE"])
        seen = []
        for settings in combinations():
            loader = DataLoader(Numbers(), batch_size=4, **settings)
            assert len(loader) == 3 and loader.batch_size == 4
            assert not any("slurm" in name for name in vars(loader))
            epochs = []
            for epoch in range(2):
                iterator = iter(loader)
                assert iter(iterator) is iterator
                epochs.append(sum(1 for _ in iterator))
                assert next(iterator, "over") == "over"
            seen.append(epochs)
            del iterator, loader
        print(json.dumps(seen))
"""


TRAINING = """
    import traceback
    import torch
    from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

    class Numbers(Dataset):
        def __len__(self): return 8
        def __getitem__(self, i): return torch.tensor([float(i)])

    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    train, valid = DataLoader(Numbers(), batch_size=2), DataLoader(Numbers(), batch_size=4)
    for epoch in range(2):
        for batch in train:
            optimizer.zero_grad()
            (weight * batch).sum().backward()
            optimizer.step()
        with torch.no_grad():
            assert sum(1 for _ in valid) == 2

    error = KeyError("sample")
    class Broken(Numbers):
        def __getitem__(self, i): raise error
    try:
        next(iter(DataLoader(Broken())))
    except KeyError as caught:
        assert caught is error and caught.__context__ is None
        tail = traceback.extract_tb(caught.__traceback__)[-1]
        assert (tail.name, tail.line) == ("__getitem__", "def __getitem__(self, i): raise error")
    else:
        raise SystemExit("not raised")

    class Stream(IterableDataset):                 # a loader inside a loader's dataset
        def __iter__(self): return iter(DataLoader(Numbers(), batch_size=2))
    assert sum(1 for _ in DataLoader(Stream(), batch_size=None)) == 4

    class Mine(DataLoader):                        # accelerate and others: a generator around
        def __iter__(self):
            for batch in super().__iter__():
                yield batch
    assert sum(1 for _ in Mine(Numbers(), batch_size=2)) == 4
    early = iter(train)
    next(early)
    del early                                      # leaving an epoch early

    print("done")
"""


def by_loader(ring: RingFile) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for batch in ring.batches:
        found.setdefault(batch.loader, []).append(batch)
    return found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_batches_recorded_are_the_batches_seen(job: Job, method: str) -> None:
    env = {"METHOD": method, "SAMPLE": str(job.folder / "sample.pt"), "RANK": "0"}
    done = job.run(MATRIX, env=env)
    assert done.returncode == 0, done.stderr
    # stderr was not empty once in some thirty runs with spawn, for a reason not yet found (it was
    # not kept). What the hook says or raises would bear its path.
    print(done.stderr)
    assert "slurm_io" not in done.stderr, done.stderr
    seen = json.loads(done.stdout)
    ring = job.ring()  # one ring: no worker has any
    assert seen == [[3, 3]] * 3
    batches = by_loader(ring)
    assert sorted(batches) == [1, 2, 3]
    for loader, text in zip(sorted(batches), ring.loaders(), strict=True):
        mine = batches[loader]
        assert [(b.epoch, b.index, b.flags & 1) for b in mine] == [
            (epoch, index, int(index == 0)) for epoch in (0, 1) for index in range(3)
        ]
        assert {b.flags & 2 for b in mine} == {2 if text["num_workers"] else 0}
        assert not any(b.flags & (4 | 8 | 16) for b in mine)
        assert text["id"] == loader
        assert text["batch_size"] == 4
        assert text["dataset"].endswith("Numbers")
    contexts = [(t["num_workers"], t["context"], t["persistent"]) for t in ring.loaders()]
    assert contexts == [(0, None, False), (2, method, False), (2, method, True)]
    for kind in ("epoch_start", "epoch_end"):
        ends = [(e.text["loader"], e.text["epoch"]) for e in ring.of_kind(kind)]
        assert ends == [(loader, epoch) for loader in (1, 2, 3) for epoch in (0, 1)]
    assert Counter(e.kind for e in ring.events if e.kind != "gc") == {
        "loader": 3, "epoch_start": 6, "epoch_end": 6, "ckpt_save": 1, "exit": 1,
    }  # fmt: skip


def test_training_with_validation_exceptions_and_optimizers(job: Job) -> None:
    stdout = job.ok(
        TRAINING,
        env={"RANK": "0"},
    )
    assert stdout == "done\n"
    ring = job.ring()
    batches = by_loader(ring)
    assert [b.steps for b in batches[1]] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [b.steps for b in batches[2]] == [4, 4, 8, 8]
    assert batches[1][0].step_end == 0
    assert all(
        b.end <= after.step_end <= after.start
        for b, after in zip(batches[1], batches[1][1:8], strict=False)
    )
    (failed,) = ring.of_kind("error")
    assert failed.text == {"loader": 3, "epoch": 0, "error": "KeyError"}
    # the stream and the generator loader; the loader inside the stream's dataset has no records
    assert [len(mine) for loader, mine in sorted(batches.items()) if loader > 3] == [4, 4]


def test_compiled_optimizer_steps_are_counted_without_a_warning(job: Job) -> None:
    done = job.run(
        """
        import slurm_io_hook, torch, warnings
        warnings.filterwarnings("error", message="Dynamo does not know")
        weight = torch.nn.Parameter(torch.zeros(1))
        weight.grad = torch.ones(1)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        @torch.compile(backend="eager")
        def step(): optimizer.step()
        for _ in slurm_io_hook.watch(range(3)): step()
        """
    )
    assert done.returncode == 0, done.stderr
    batches = job.ring().batches
    assert [b.steps for b in batches] == [0, 1, 2]
    assert len({b.step_end for b in batches}) == 3


def test_a_worker_lost_while_training_computes_is_told(job: Job) -> None:
    """torch's signal handler raises in the loop, not in the loader."""
    job.run(
        """
        import os, time
        from torch.utils.data import DataLoader, Dataset

        class Dies(Dataset):
            def __len__(self): return 8
            def __getitem__(self, i):
                while i == 1 and not os.path.exists("computing"):
                    time.sleep(0.01)
                if i == 1:
                    os.kill(os.getpid(), 9)
                return i

        if __name__ == "__main__":
            for batch in DataLoader(Dies(), num_workers=1):
                open("computing", "w").close()
                time.sleep(60)  # cut short by the handler
        """,
        env={"RANK": "0"},
    )
    told = job.ring().of_kind("error")
    assert told[0].text == {"error": "RuntimeError", "worker": "is killed by signal: Killed"}
    assert told[0].failed


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("os.kill(os.getpid(), 9)", "killed by signal: Killed"),
        ("os._exit(3)", "exited unexpectedly"),
    ],
)
def test_how_a_worker_was_lost_is_kept(job: Job, how: str, told: str) -> None:
    job.ok(
        """
        import os
        from torch.utils.data import DataLoader, Dataset

        class Dies(Dataset):
            def __len__(self): return 8
            def __getitem__(self, i):
                eval(os.environ["HOW"])  # at once: no batch of its is on the way
                return i

        if __name__ == "__main__":
            try:
                list(DataLoader(Dies(), num_workers=1))
            except RuntimeError:
                pass
        """,
        env={"RANK": "0", "HOW": how},
    )
    failed = job.ring().of_kind("error")  # by the handler, and by the loader that waited
    assert {each.text["error"] for each in failed} == {"RuntimeError"}
    assert told in failed[0].text["worker"]
