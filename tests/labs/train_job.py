"""An ordinary PyTorch training script, with its own stopwatch: the labs' training job.

It knows nothing of any profiler. One step: wait for the batch, forward and backward of a tiny
model, a sleep standing for the GPU kernel the host waits for, an optional garbage collection, an
all-reduce (several ranks), optimizer.step(), and every so often a checkpoint or a validation
loop. Each rank writes ``TRUTH/rank<N>.json`` with CLOCK_MONOTONIC times read by itself: see
:mod:`tests.labs.train` for what stands in it. Ranks: RANK and WORLD_SIZE, else SLURM_PROCID.

Every item carries when its read began and ended and how much of it the thread was blocked (see
train_items), measured in whichever process did it and handed over inside the batch, so that what
the waits were for can be told afterwards without asking anybody else.
"""

import argparse
import gc
import json
import os
import socket
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, default_collate
from train_items import FEATURES, READERS, Items, burn
from train_saves import BACKGROUND, MODES


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--data", required=True, help="folder of the dataset")
    add("--truth", required=True, help="folder for rank<N>.json")
    add("--reader", choices=READERS, default="read")
    add("--item-ms", type=float, default=0.0, help="sleep or CPU time of one item (sleep, cpu)")
    add("--decode-ms", type=float, default=0.0, help="CPU time spent on an item that was read")
    add("--collate-ms", type=float, default=0.0, help="CPU time spent on putting a batch together")
    add("--pieces", type=int, default=16, help="reads for one item (pieces)")
    add("--endpoint", help="http://host:port of the object store (object)")
    add("--batch", type=int, default=4, help="items in a batch")
    add("--workers", type=int, default=0)
    add("--context", choices=["fork", "spawn", "forkserver"], default="fork")
    add("--prefetch", type=int, default=2)
    add("--persistent", action="store_true")
    add("--epochs", type=int, default=1)
    add("--steps", type=int, default=200, help="steps of one epoch")
    add("--compute-ms", type=float, default=40.0)
    add("--transfer-ms", type=float, default=0.0, help="copying each batch, by the training thread")
    add("--pause-every", type=int, default=0, help="a step that computes longer, as for a compile")
    add("--pause-ms", type=float, default=0.0)
    add("--late-rank", type=int, default=-1, help="the rank that computes --late-ms longer")
    add("--late-ms", type=float, default=0.0)
    add("--index-kib", type=int, default=0, help="memory that each step adds and keeps")
    add("--index-ms", type=float, default=0.0, help="CPU time of the last step's look into it")
    add("--load", help="a file that is loaded before training")
    add("--gc-every", type=int, default=0, help="collect garbage every N steps")
    add("--gc-objects", type=int, default=300_000, help="size of the heap the collector walks")
    add("--checkpoint-every", type=int, default=0)
    add("--checkpoint-dir")
    add("--checkpoint-mib", type=int, default=8)
    add("--checkpoint-fsync", action="store_true")
    add("--checkpoint-mode", choices=sorted(MODES), default="save")
    add("--validate-every", type=int, default=0)
    add("--validation-data")
    add("--validation-batches", type=int, default=4)
    add("--slow-rank", type=int, default=-1, help="the rank that reads --slow-data")
    add("--slow-data")
    add("--seed", type=int, default=1)
    return parser.parse_args()


def make_loader(options, folder, reader, batches, workers):
    dataset = Items(folder, reader, batches * options.batch, options)
    extra = {"collate_fn": slow_collate(options.collate_ms)} if options.collate_ms else {}
    if workers:
        extra |= {
            "multiprocessing_context": options.context,
            "prefetch_factor": options.prefetch,
            "persistent_workers": options.persistent,
        }
    return DataLoader(dataset, batch_size=options.batch, num_workers=workers, **extra)


def slow_collate(milliseconds):
    def collate(items):
        burn(milliseconds)
        return default_collate(items)

    return collate


class Truth:
    """What the stopwatch saw; one entry a step in each list."""

    def __init__(self, rank, world):
        self.facts = {"rank": rank, "world_size": world, "pid": os.getpid()}
        self.lists = {}

    def add(self, **values):
        for name, value in values.items():
            self.lists.setdefault(name, []).append(value)

    def write(self, folder):
        path = Path(folder) / (f"rank{self.facts['rank']}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**self.facts, **self.lists}))


def wait_for_batch(iterator, truth, first):
    """The next batch, and the times its items brought along."""
    start_ns = time.monotonic_ns()
    items = next(iterator)
    wait_ns = time.monotonic_ns() - start_ns
    reads = items[:, FEATURES:].long().tolist()
    truth.add(wait_start_ns=start_ns, wait_ns=wait_ns, reads=reads, first_of_epoch=first)
    return items[:, :FEATURES].float()


def timed(call, *arguments):
    start_ns = time.monotonic_ns()
    call(*arguments)
    return time.monotonic_ns() - start_ns


def save(options, model, filler, rank, step):
    state = {**model.state_dict(), "filler": filler}
    MODES[options.checkpoint_mode](options, state, rank, step)


def validate(options, model):
    loader = make_loader(options, options.validation_data, "read", options.validation_batches, 0)
    model.eval()
    with torch.no_grad():
        for items in loader:
            model(items[:, :FEATURES].float())
    model.train()


def compute(options, model, batch, rank, step, index):
    if options.transfer_ms:
        transfer(options.transfer_ms)
    loss = model(batch).pow(2).mean()
    loss.backward()
    time.sleep((options.compute_ms + options.late_ms * (rank == options.late_rank)) / 1e3)
    if options.pause_every and step % options.pause_every == 0:
        burn(options.pause_ms)
    if options.index_kib:
        index.append(b"x" * (options.index_kib * 1024))
        burn(options.index_ms * step / (options.steps * options.epochs))


def transfer(milliseconds):
    """Copies of pinned memory by the training thread; 8 MiB a copy."""
    until_ns = time.monotonic_ns() + int(milliseconds * 1e6)
    source, target = torch.ones(2**21), torch.empty(2**21)
    while time.monotonic_ns() < until_ns:
        target.copy_(source)


def all_reduce(model, world):
    for parameter in model.parameters():
        torch.distributed.all_reduce(parameter.grad)
        parameter.grad /= world


def make_heap(objects):
    """Something for the garbage collector to walk: many small containers that stay alive."""
    return [[number] for number in range(objects)]


def init_ranks():
    rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID", "0")))
    world = int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1")))
    if world > 1:
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
    return rank, world


def train_step(options, step, model, optimizer, batch, world, truth, filler, index):
    rank = truth.facts["rank"]
    compute_ns = timed(compute, options, model, batch, rank, step, index)
    gc_due = options.gc_every and step % options.gc_every == 0
    gc_ns = timed(gc.collect) if gc_due else 0
    reduce_ns = timed(all_reduce, model, world) if world > 1 else 0
    update_ns = timed(optimizer.step)
    optimizer.zero_grad()
    save_ns = validate_ns = 0
    if options.checkpoint_every and step % options.checkpoint_every == 0:
        save_ns = timed(save, options, model, filler, rank, step)
    if options.validate_every and step % options.validate_every == 0:
        validate_ns = timed(validate, options, model)
    truth.add(compute_ns=compute_ns, gc_ns=gc_ns, reduce_ns=reduce_ns, update_ns=update_ns)
    truth.add(save_ns=save_ns, validate_ns=validate_ns, step_end_ns=time.monotonic_ns())


def main():
    options = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    rank, world = init_ranks()
    truth = Truth(rank, world)
    truth.facts["host"] = socket.gethostname()
    folder = options.slow_data if rank == options.slow_rank else options.data
    loader = make_loader(options, folder, options.reader, options.steps, options.workers)
    layers = [torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    heap = make_heap(options.gc_objects if options.gc_every else 0)
    filler = torch.zeros(options.checkpoint_mib * 2**20, dtype=torch.uint8)
    if options.load:
        torch.load(options.load, weights_only=True)
    step, grown = 0, []
    for _ in range(options.epochs):
        start_ns = time.monotonic_ns()
        iterator = iter(loader)
        truth.add(iter_ns=time.monotonic_ns() - start_ns)
        for number in range(options.steps):
            batch = wait_for_batch(iterator, truth, number == 0)
            step += 1
            train_step(options, step, model, optimizer, batch, world, truth, filler, grown)
        start_ns = time.monotonic_ns()
        del iterator
        truth.add(epoch_end_ns=time.monotonic_ns() - start_ns)
    BACKGROUND.finish()
    truth.facts["heap"] = len(heap)
    truth.write(options.truth)
    if world > 1:
        torch.distributed.destroy_process_group()
    print(f"rank {rank}: {step} steps done")


if __name__ == "__main__":
    main()
