"""What needs a torch other than the installed one: a stand-in with its seams, on every Python."""

from __future__ import annotations

import textwrap

import pytest

from tests.hook.scripts import Job
from tests.hook.test_interpreters import FOUND, SUPPORTED

MODULES = {
    "torch/__init__.py": "__version__ = '1.13.1'",
    "torch/_C.py": "def _cuda_getDeviceCount(): return 1",
    "torch/cuda.py": "_initialized = False",
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/_utils/__init__.py": "",
    "torch/utils/data/_utils/worker.py": """
        _worker_info = None
        def get_worker_info(): return _worker_info
    """,
    "torch/utils/data/dataloader.py": """
        import torch._C, torch.cuda, torch.utils.data._utils.worker
        class _BaseDataLoaderIter:
            def __init__(self, loader): self._it = iter(loader.dataset); self._num_workers = 0
            def __iter__(self): return self
            def __next__(self): return next(self._it)
        class DataLoader:
            num_workers = 0
            batch_size = 2
            def __init__(self, dataset): self.dataset = dataset
            def _get_iterator(self): return _BaseDataLoaderIter(self)
            def __iter__(self): return self._get_iterator()
    """,
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": """
        class Optimizer:
            def __init__(self):
                if not getattr(type(self).step, "hooked", False):
                    type(self).step = self.profile_hook_step(type(self).step)
                    type(self).step.hooked = True
            @staticmethod
            def profile_hook_step(step):
                def profiled(*args, **kwargs): return step(*args, **kwargs)
                return profiled
        class SGD(Optimizer):
            def step(self, closure=None): return "stepped"
    """,
}


@pytest.fixture(params=SUPPORTED)
def old_torch(job: Job, request: pytest.FixtureRequest) -> Job:
    for name, body in MODULES.items():
        file = job.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(body))
    job.python = FOUND[request.param]
    return job


def test_torch_1_steps_are_counted_and_cuda_is_seen(old_torch: Job) -> None:
    old_torch.ok(
        """
        import torch.cuda
        from torch.optim.optimizer import SGD
        from torch.utils.data.dataloader import DataLoader
        optimizer = SGD()
        loader = DataLoader("abcd")
        for n, _ in enumerate(loader):
            if n == 1: torch.cuda._initialized = True
            assert optimizer.step() == "stepped"
        SGD(); assert SGD().step() == "stepped"        # hooked once, however many there are
        next(iter(loader))
        """
    )
    ring = old_torch.ring()
    assert ring.greeting["torch"] == "1.13.1"
    assert [b.steps for b in ring.batches] == [0, 1, 2, 3, 5]
    assert [b.flags for b in ring.batches] == [1, 0, 4, 4, 1 | 4]
    assert [(b.epoch, b.index) for b in ring.batches] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


def test_iterator_made_behind_our_back_is_still_timed(old_torch: Job) -> None:
    old_torch.ok(
        """
        from torch.utils.data.dataloader import DataLoader
        assert list(DataLoader("abc")._get_iterator()) == ["a", "b", "c"]
        """
    )
    assert [(b.loader, b.index) for b in old_torch.ring().batches] == [(1, 0), (1, 1), (1, 2)]


def test_worker_records_nothing(old_torch: Job) -> None:
    old_torch.ok(
        """
        import slurm_io_hook
        import torch.utils.data._utils.worker as worker
        from torch.utils.data.dataloader import DataLoader
        worker._worker_info = "I am one"
        assert list(DataLoader("abc")) == list(slurm_io_hook.watch("abc")) == ["a", "b", "c"]
        with slurm_io_hook.event("load"): pass
        """
    )
    assert old_torch.rings() == []


def test_two_loaders_of_one_kind_keep_their_numbers(old_torch: Job) -> None:
    old_torch.ok(
        """
        import copy, pickle
        from torch.utils.data.dataloader import DataLoader
        first, second = DataLoader("ab"), DataLoader("cd")
        for _ in range(2): list(first), list(second)
        assert vars(first) == {"dataset": "ab"}
        list(copy.copy(first)); list(pickle.loads(pickle.dumps(first)))
        """
    )
    ring = old_torch.ring()
    assert [b.loader for b in ring.batches] == [1, 1, 2, 2] * 2 + [3, 3, 4, 4]
    assert [b.epoch for b in ring.batches] == [0] * 4 + [1] * 4 + [0] * 4
