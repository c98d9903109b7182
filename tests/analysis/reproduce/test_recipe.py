"""What is taken from a store, and how what it does not tell is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.reproduce import recipe as recipes
from slurm_io.analysis.reproduce.recipe import Recipe, read_recipe
from slurm_io.analysis.thresholds import Thresholds
from tests.analysis.stand_in import Job, StandInStore, one_rank, train

LOADERS = [
    {"id": 0, "pid": 1000, "num_workers": 2, "batch_size": 8, "prefetch_factor": 3,
     "persistent": True, "pin_memory": False, "context": "spawn", "dataset": "d.Set"},
    {"id": 1, "pid": 1000, "num_workers": 0, "batch_size": 1, "dataset": "d.Validation"},
]  # fmt: skip


def store(steps: int = 300, **extra: Any) -> StandInStore:
    made = Job([train(one_rank(), steps, 0.04, lambda k: (0.02, "storage"))]).store()
    made.nodes["n1"].meta["loaders"] = LOADERS
    made.extra |= extra
    return made


def recipe(made: StandInStore) -> Recipe:
    return read_recipe(take_picture(made, Thresholds()))


def test_settings_are_those_of_the_training_loader() -> None:
    told = recipe(store(command=["python", "t.py"]))
    assert (told.workers, told.prefetch, told.batch_size) == (2, 3, 8)
    assert (told.persistent, told.pin_memory, told.context) == (True, False, "spawn")
    assert told.dataset_class == "d.Set"
    assert told.command == ["python", "t.py"]
    assert told.steps == recipes.MOST_STEPS
    assert told.compute_s == pytest.approx(0.04, rel=0.05)
    assert told.dataset == "/scratch/data"
    assert isinstance(told.bytes_per_item, int)
    assert told.wait_share == pytest.approx(0.33, abs=0.05)


def test_what_is_not_recorded_is_marked_with_its_reason() -> None:
    made = Job([train(one_rank(), 60, 0.04, lambda k: (0.0, "cpu"))]).store()
    told = recipe(made)
    assert (
        told.dataset == "MISSING: nobody waited for a file of it: the folder that the loader reads"
    )
    assert str(told.command).startswith("MISSING: a batch job's store holds none")
    assert told.workers is None
    assert "hook described no torch DataLoader" in told.not_recorded["workers"]
    assert "dataset arguments and sampler" in told.not_recorded


def test_a_store_without_steps_has_no_compute_time() -> None:
    told = recipe(StandInStore(None, {}, ()))
    assert str(told.compute_s).startswith("MISSING: no step was timed")
    assert json.loads(json.dumps(told.to_dict())) == told.to_dict()


@pytest.mark.parametrize(
    ("paths", "order"),
    [
        ([f"/d/{k:03}" for k in range(30)], "listed"),
        ([f"/d/{k * 17 % 30:03}" for k in range(30)], "shuffled"),
        (["/d/1", "/d/2"], None),
        ([], None),
    ],
)
def test_the_order_class_comes_from_the_files_waited_for(
    paths: list[str], order: str | None
) -> None:
    assert recipes._order(paths) == order


def test_launched_ranks_are_told_from_a_plain_process() -> None:
    made = store()
    assert recipe(made).world_size == 1
    made.nodes["n1"].meta["ranks"] = [{"rank": None, "pid": 1000, "world_size": None}]
    assert recipe(made).world_size is None
