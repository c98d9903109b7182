"""Padding: what a look at a batch says, what it leaves alone, and how seldom it comes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hook.scripts import Job

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

LOOK = """
    import collections
    import torch
    import slurm_io_hook
    from slurm_io_hook.padding import PaddingLooks
    mask = torch.zeros(8, 100, dtype=torch.int64)
    mask[:, :40] = 1
    for _ in slurm_io_hook.watch([1]): pass      # there is a ring
    def look(batch):
        PaddingLooks().look(batch, 3, 1, 0, 1)
"""


def told(job: Job, script: str) -> list[dict[str, Any]]:
    job.ok(LOOK + script)
    return [event.text for event in job.ring().of_kind("padding")]


def test_masks_are_counted_wherever_they_are(job: Job) -> None:
    script = """
    look({"attention_mask": mask})
    look({"attention_mask": mask.bool()})
    look({"attention_mask": mask.flip(1)})                   # padded on the left
    look(({"attention_mask": mask}, None))
    look(collections.UserDict(attention_mask=mask))          # as BatchEncoding is
    big = torch.ones(64, 1024, dtype=torch.int64)
    big[32:, 512:] = 0                                       # sorted by length
    look({"attention_mask": big})
    """
    *small, large = told(job, script)
    assert small == [{"loader": 1, "epoch": 0, "padding": 480, "tokens": 800}] * 5
    assert (large["tokens"], large["padding"]) == (16384, 4096), "rows all over the batch"


def test_anything_else_is_left_alone(job: Job) -> None:
    script = """
    from torch.utils._python_dispatch import TorchDispatchMode
    look(mask)
    look({"input_ids": mask})
    look({"attention_mask": mask[0]})
    look({"attention_mask": mask.to("meta")})
    look({"attention_mask": mask.tolist()})
    look({"attention_mask": torch.nn.Parameter(mask.float())})
    look({"attention_mask": torch.eye(8, dtype=torch.int64)})  # hides tokens, is no padding
    look({"attention_mask": mask.to_sparse()})
    look({"attention_mask": mask[:0]})
    seen = []
    class Watching(TorchDispatchMode):                         # sees every operation
        def __torch_dispatch__(self, function, types, arguments=(), more=None):
            seen.append(function)
            return function(*arguments, **(more or {}))
    with Watching():
        look({"attention_mask": mask})
    assert not seen
    """
    assert told(job, script) == [{"loader": 1, "epoch": 0, "masks": False}] * 10


def test_looks_are_seldom_and_end_where_there_is_nothing_to_see(job: Job) -> None:
    script = """
    from time import monotonic_ns
    batch = {"attention_mask": mask}
    looks = PaddingLooks()
    after = looks.look(batch, 3, 1, 0, 1)
    assert after >= 53
    assert looks.look(batch, after, 1, 0, looks._next_ns - 1) == after + 50   # too early
    assert looks.look(batch, after, 1, 0, looks._next_ns) > after
    for index in range(1000, 1031):
        looks.look(batch, index, 1, 0, looks._next_ns)
    last_ns = looks._next_ns
    looks.look(batch, 9999, 1, 0, last_ns)
    assert looks._next_ns >= monotonic_ns() + 29 * 10**9                     # many looks: seldom
    looks = PaddingLooks()
    found = []
    for index in (3, 53, 103):
        looks._next_ns = 0
        found.append(looks.look(None, index, 1, 0, 1))
    assert found[0] >= 53 and found[1] >= 103 and found[2] == -1 == looks.first_at
    """
    *several, last = told(job, script)  # of three looks in vain the first is told
    assert len(several) == 34
    assert all(one == several[0] for one in several) and "padding" in several[0]
    assert last == {"loader": 1, "epoch": 0, "masks": False}


LOOPS = """
    import torch
    import slurm_io_hook
    def loop(make, **more):
        class Batches:
            def __iter__(self):
                for k in range(200): yield make(k)
        batches = list(slurm_io_hook.watch(Batches(), **more))
        assert len(batches) == 200
    loop(lambda k: {"attention_mask": torch.ones(2, 8)})
    loop(lambda k: k, padding=lambda k: (1, 4))
    loop(lambda k: k, padding=lambda k: 1 / 0)
    loop(lambda k: k, padding=lambda k: (5, 4))
    loop(lambda k: k, padding=lambda k: "x")
"""


def test_looks_of_real_loops(job: Job) -> None:
    job.ok(LOOPS)
    ring = job.ring()
    assert len(ring.batches) == 5 * 200
    found: dict[int, list[dict[str, Any]]] = {number: [] for number in range(1, 6)}
    for event in ring.of_kind("padding"):
        found[event.text["loader"]].append(event.text)
    assert (found[1][0]["padding"], found[1][0]["tokens"]) == (0, 16)
    assert found[2][0] == {"loader": 2, "epoch": 0, "padding": 1, "tokens": 4, "by": "user"}
    assert not any("padding" in text for number in (3, 4, 5) for text in found[number])
