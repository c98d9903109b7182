"""Passes b and c: inside the job's own program, at the moment its training loader starts.

The program runs as ever until it iterates a DataLoader that looks like the recorded one. That
loader is taken, timed with a sleep instead of the step, and the program ends there: nothing is
trained and nothing is saved. It ends as well before a first step of an optimizer: then no loader of
its was like the recorded one. Under a launcher such as torchrun it runs as the only rank.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time

import plain_passes  # type: ignore[import-not-found]  # beside this file, where both are run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, NoReturn, Optional, Sequence, Tuple

    Recipe = Dict[str, Any]
    Result = Dict[str, Any]

LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
WITH_VALUE = (
    "--nnodes", "--nproc-per-node", "--nproc_per_node", "--rdzv-backend", "--rdzv_backend",
    "--rdzv-endpoint", "--rdzv_endpoint", "--rdzv-id", "--rdzv_id", "--rdzv-conf", "--rdzv_conf",
    "--node-rank", "--node_rank", "--master-addr", "--master_addr", "--master-port",
    "--master_port", "--max-restarts", "--max_restarts", "--local-addr", "--local_addr", "--role",
    "--log-dir", "--log_dir", "--monitor-interval", "--monitor_interval", "--start-method",
    "--start_method",
)  # fmt: skip
PYTHON_WITH_VALUE = ("-W", "-X")


class InMemory:
    """A dataset of one item, again and again. In a module of its own: workers may be spawned."""

    def __init__(self, item: Any, length: int) -> None:
        self.item = item
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.item


def inside(order_text: str) -> None:
    """Start the program; `order_text` is JSON: recipe, passes, result (a file to write)."""
    order = json.loads(order_text)
    is_module, name, arguments = program(order["recipe"]["command"])
    if order["recipe"]["world_size"]:
        be_the_only_rank()
    import torch.utils.data

    loader_class: Any = torch.utils.data.DataLoader
    start = loader_class.__iter__

    def taken(self: Any) -> Any:
        info = torch.utils.data.get_worker_info()
        if info is None and is_the_one(self, order["recipe"]):
            loader_class.__iter__ = start
            run(self, order)
        return start(self)

    loader_class.__iter__ = taken
    end_before_training(order)
    sys.argv = [name, *arguments]
    if is_module:
        sys.path.insert(0, os.getcwd())
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, os.path.dirname(os.path.abspath(name)))
        runpy.run_path(name, run_name="__main__")


def end_before_training(order: Dict[str, Any]) -> None:
    """A program whose loader was not taken must not train on; torch before 2.1 has no such hook."""
    try:
        from torch.optim.optimizer import register_optimizer_step_pre_hook
    except ImportError:
        return

    def end(*_arguments: Any) -> None:
        reason = "the program was to train a step before a DataLoader like the recorded one started"
        leave(order, {name: {"reason": reason} for name in order["passes"]})

    register_optimizer_step_pre_hook(end)


def program(command: Sequence[str]) -> Tuple[bool, str, List[str]]:
    """(is a module, its name or the script's path, arguments) of a recorded command line."""
    words = list(command)
    if words and os.path.basename(words[0]).startswith("python"):
        words = after_options(words[1:], PYTHON_WITH_VALUE)
        if words[:1] == ["-m"] and words[1:2] and words[1] in LAUNCHERS:
            words = ["torchrun"] + words[2:]
    if words and os.path.basename(words[0]) in LAUNCHERS:
        words = after_options(words[1:], WITH_VALUE)
    if words[:1] == ["-m"] and len(words) > 1:
        return True, words[1], words[2:]
    if not words or not words[0].endswith(".py"):
        raise SystemExit(f"no Python script in {command}: give it after --, script first")
    return False, words[0], words[1:]


def after_options(words: List[str], with_value: Tuple[str, ...]) -> List[str]:
    """What follows the options; ``-m`` stays."""
    while words and words[0].startswith("-") and words[0] != "-m":
        takes_next = words[0] in with_value and "=" not in words[0]
        words = words[2 if takes_next else 1 :]
    return words


def be_the_only_rank() -> None:
    """What a launcher would have set for one rank: the program must not wait for others."""
    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
             "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}  # fmt: skip
    os.environ.update(ranks)
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")


def is_the_one(loader: Any, recipe: Recipe) -> bool:
    """Whether `loader` is like the recorded one; what was not recorded is not compared."""
    pairs = (
        (recipe["workers"], getattr(loader, "num_workers", None)),
        (recipe["batch_size"], getattr(loader, "batch_size", None)),
        (recipe["dataset_class"], type_name(getattr(loader, "dataset", None))),
    )
    return all(plain_passes.unknown(told) or seen is None or told == seen for told, seen in pairs)


def type_name(value: object) -> str:
    """As the hook names it."""
    return f"{type(value).__module__}.{type(value).__qualname__}"


def run(loader: Any, order: Dict[str, Any]) -> NoReturn:
    """Both passes, then the end."""
    recipe = order["recipe"]
    results: Dict[str, Result] = {}
    if "b" in order["passes"]:
        results["b"] = guarded(time_loader, loader, recipe)
    if "c" in order["passes"]:
        results["c"] = guarded(lambda: time_loader(over_memory(loader, recipe), recipe))
    leave(order, results)


def leave(order: Dict[str, Any], results: Dict[str, Result]) -> NoReturn:
    """Write the results and end."""
    with open(order["result"], "w") as file:
        json.dump(results, file)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # past the program's own clean-up: it has not trained and must not save


def guarded(call: Callable[..., Result], *arguments: Any) -> Result:
    """A pass may fail in any way the user's code can; that is its result."""
    try:
        return call(*arguments)
    except Exception as error:
        return {"reason": f"{type(error).__name__}: {error}"}


def time_loader(loader: Any, recipe: Recipe) -> Result:
    """Batches of the loader with a sleep between them; a pass that ends is started again."""
    waits: List[float] = []
    iterator, pauses, start = iter(loader), 0.0, None
    while len(waits) < recipe["steps"]:
        before = time.monotonic()
        try:
            next(iterator)
        except StopIteration:
            iterator = again(loader, start)
            pauses += time.monotonic() - before
        else:
            if start is not None:
                waits.append(time.monotonic() - before)
            time.sleep(recipe["compute_s"])
            start = start or time.monotonic()  # the first batch and its sleep are start-up
    took_s = time.monotonic() - (start or 0.0) - pauses
    del iterator
    return dict(plain_passes.summary(waits, took_s))


def again(loader: Any, start: Optional[float]) -> Any:
    """The next pass, its first batch already taken; an empty loader is an error."""
    if start is None:
        raise ValueError("the loader gave no batch")
    iterator = iter(loader)
    next(iterator)
    return iterator


def one_item(dataset: Any, index: Any) -> Any:
    """As a loader gets it: a dataset may give whole batches only (``__getitems__``)."""
    batches = getattr(dataset, "__getitems__", None)
    return dataset[index] if batches is None else batches([index])[0]


def over_memory(loader: Any, recipe: Recipe) -> Any:
    """A DataLoader with the same settings over one item of the dataset, kept in memory."""
    import torch.utils.data

    dataset = loader.dataset
    if isinstance(dataset, torch.utils.data.IterableDataset):
        item = next(iter(dataset))
    else:
        item = one_item(dataset, 0 if loader.sampler is None else next(iter(loader.sampler)))
    settings: Dict[str, Any] = {
        "batch_size": loader.batch_size or recipe["batch_size"] or 1,
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
    }
    if loader.num_workers:
        settings.update(
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
            multiprocessing_context=loader.multiprocessing_context,
        )
    length = (recipe["steps"] + 2) * settings["batch_size"]
    kept: Any = InMemory(item, length)
    return torch.utils.data.DataLoader(kept, **settings)
