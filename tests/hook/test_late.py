"""Into a process that runs already, with its modules imported and its loop begun, and out again."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.hook.late_job import late_job
from tests.hook.test_interpreters import FOUND, SUPPORTED
from tests.hook.test_stand_in_torch import MODULES

TORCH = """
import torch, torch.serialization
import torch.optim.optimizer as optim
import torch.utils.data.dataloader as dataloader
from torch.utils.data import DataLoader

class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, i): return torch.tensor([float(i)])

def originals():
    return [id(each) for each in (
        DataLoader.__iter__, dataloader._BaseDataLoaderIter.__next__, torch.save, torch.load,
        torch.serialization.save)] + [len(optim._global_optimizer_post_hooks)]

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
batches = iter(DataLoader(Numbers(), batch_size=2))
optimizer.step(); next(batches)
before = settings(), originals()
come_by("loads now")
for _ in range(3):
    next(batches); optimizer.step()
torch.save(weight, "w.pt")
come_by("leaves now")
next(batches); optimizer.step(); torch.save(weight, "w.pt"); next(iter(DataLoader(Numbers())))
print(json.dumps([(settings(), originals()) == before, len(list(batches))]))
"""
STAND_IN = """
from torch.utils.data.dataloader import DataLoader
batches = iter(DataLoader("abcdefgh"))
next(batches)
before = settings()
come_by(); next(batches); next(batches); come_by(); next(batches)
print(settings() == before)
"""


@pytest.mark.torch
def test_a_running_torch_loop_is_timed_from_then_on_and_left_as_it_was(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with late_job(tmp_path, TORCH) as job:
        assert job.said() == '"loads now"'
        job.step(job.load())
        assert job.said() == '"leaves now"'
        assert job.answer.read_text() == "loaded"
        ring = job.ring()
        assert [batch.index for batch in ring.batches] == [0, 1, 2]
        assert [batch.steps for batch in ring.batches] == [0, 1, 2]
        assert [event.kind for event in ring.events if event.kind != "gc"] == [
            "loader",
            "ckpt_save",
        ]
        job.step(job.leave())
        assert json.loads(job.end()) == [True, 45]
        assert job.answer.read_text() == "left"
        assert len(job.ring().batches) == 3


@pytest.mark.torch
def test_the_rings_memory_is_given_back(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = TORCH + '\nprint(json.dumps("rings/ring-" in open("/proc/self/maps").read()))'
    with late_job(tmp_path, script) as job:
        job.said()
        job.step(job.load())
        job.said()
        assert "/rings/ring-" in Path(f"/proc/{job.process.pid}/maps").read_text()
        job.step(job.leave())
        assert job.end().splitlines()[-1] == "false"


def stand_in(folder: Path) -> dict[str, str]:
    for name, body in MODULES.items():
        file = folder / "modules" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(body))
    return {"PYTHONPATH": str(folder / "modules")}


@pytest.mark.parametrize("version", SUPPORTED)
def test_every_python_takes_it_and_gives_it_back(tmp_path: Path, version: str) -> None:
    with late_job(tmp_path, STAND_IN, FOUND[version], **stand_in(tmp_path)) as job:
        job.said()
        job.step(job.load())
        job.said()
        assert len(job.ring().batches) == 2
        job.step(job.leave())
        assert job.end() == "True"


@pytest.mark.parametrize(
    ("environment", "said"),
    [({"SLURM_IO_HOOK": "0"}, "off"), ({"SLURM_IO_RING_DIR": "{}/others"}, "there")],
)
def test_the_users_switch_and_another_recording_are_respected(
    tmp_path: Path, environment: dict[str, str], said: str
) -> None:
    (tmp_path / "others").mkdir()
    filled = {name: value.format(tmp_path) for name, value in environment.items()}
    with late_job(tmp_path, STAND_IN, **stand_in(tmp_path), **filled) as job:
        job.said()
        job.step(job.load())
        job.said()
        assert job.answer.read_text() == said
        assert [path.name for path in job.rings.iterdir()] == ["answer"]
        job.step()
        assert job.end() == "True"


def test_a_process_that_is_not_the_one_meant_does_nothing(tmp_path: Path) -> None:
    with late_job(tmp_path, STAND_IN, **stand_in(tmp_path)) as job:
        job.said()
        job.step(job.load(pid=1))
        job.said()
        assert list(job.rings.iterdir()) == []
        job.step()
        assert job.end() == "True"


def test_a_wrapper_of_another_tool_around_ours_stays(tmp_path: Path) -> None:
    script = """
    import functools
    import torch.utils.data.dataloader as dataloader
    Iter = dataloader._BaseDataLoaderIter
    come_by()
    ours = Iter.__next__
    @functools.wraps(ours)
    def theirs(self): return ours(self)
    Iter.__next__ = theirs
    come_by()
    print(Iter.__next__ is theirs, next(iter(dataloader.DataLoader("ab"))))
    """
    with late_job(tmp_path, script, **stand_in(tmp_path)) as job:
        job.said()
        job.step(job.load())
        job.said()
        job.step(job.leave())
        assert job.end() == "True a"


def test_a_folder_that_takes_no_ring_leaves_the_program_alone(tmp_path: Path) -> None:
    with late_job(tmp_path, STAND_IN, **stand_in(tmp_path)) as job:
        job.said()
        job.step(job.load().replace(f"join('{job.rings}')", "join('/nowhere')"))
        job.said()
        job.step(job.leave())
        assert job.end() == "True"
