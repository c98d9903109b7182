"""Pass a: plain reads of the dataset's files, and what every pass is timed with.

As many batches are read at a time as the loader had workers, and as many ahead as it prefetched.
Each item is of the recorded size; a file where items are as large as files.
"""

from __future__ import annotations

import os
import random
import time
from concurrent.futures import ThreadPoolExecutor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

    Recipe = Dict[str, Any]
    Result = Dict[str, Any]
    Item = Tuple[str, int, int]

MISSING = "MISSING"
MOST_FILES = 100000
MOST_UNASKED = 1 << 24  # of a file that is read whole because nobody knows how much of it was


def unknown(value: object) -> bool:
    """Whether the recipe does not hold it."""
    return value is None or (isinstance(value, str) and value.startswith(MISSING))


def plain_reads(recipe: Recipe) -> Result:
    """Pass a: batches of plain reads, `workers` at a time and `prefetch` ahead for each."""
    if unknown(recipe["dataset"]):
        raise ValueError("the dataset's folder is not known: fill it in, or give --data DIR")
    batches = plan_batches(list_files(recipe["dataset"]), recipe)
    for path in {path for batch in batches for path, _, _ in batch}:
        forget(path)
    workers = recipe["workers"] or 0
    if workers == 0:
        results = map(read_batch, batches)
        return timed(results, recipe["compute_s"])
    ahead = workers * (recipe["prefetch"] or 2)
    with ThreadPoolExecutor(workers) as pool:
        return timed(in_order(pool, batches, ahead), recipe["compute_s"])


def list_files(folder: str) -> List[Tuple[str, int]]:
    """(path, bytes) of regular files below `folder`, by name, at most MOST_FILES."""
    found = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(root, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append((path, os.path.getsize(path)))
        if len(found) >= MOST_FILES:
            break
    found = [one for one in found if one[1] > 0]
    if not found:
        raise ValueError(f"there is no file to read in {folder}")
    return found[:MOST_FILES]


def plan_batches(files: List[Tuple[str, int]], recipe: Recipe) -> List[List[Item]]:
    """(path, offset, bytes) of each item of each batch.

    Items as large as a file are files; smaller ones are pieces: one after the other in listed
    order, else anywhere.
    """
    size = None if unknown(recipe["bytes_per_item"]) else int(recipe["bytes_per_item"])
    middle = sorted(length for _, length in files)[len(files) // 2]
    if size is None and middle > MOST_UNASKED:
        raise ValueError("files are large and the bytes of an item not known: fill in the recipe")
    dice = random.Random(1)
    if recipe["order"] == "shuffled":
        dice.shuffle(files)
    count = recipe["steps"] * (recipe["batch_size"] or 1)
    if size is None or size >= middle / 2:
        items = [(path, 0, length) for path, length in files]
        items = [items[k % len(items)] for k in range(count)]
    elif recipe["order"] == "shuffled":
        items = [anywhere(dice.choice(files), max(size, 1), dice) for _ in range(count)]
    else:
        items = pieces(files, max(size, 1), count)
    each = recipe["batch_size"] or 1
    return [items[k : k + each] for k in range(0, count, each)]


def anywhere(file: Tuple[str, int], size: int, dice: random.Random) -> Item:
    """A piece at a random place."""
    path, length = file
    return path, dice.randrange(max(1, length - size + 1)), min(size, length)


def pieces(files: List[Tuple[str, int]], size: int, count: int) -> List[Item]:
    """`count` pieces one after the other, from the first file again when all were read."""
    found: List[Item] = []
    while len(found) < count:
        for path, length in files:
            for offset in range(0, length, size):
                found.append((path, offset, min(size, length - offset)))
                if len(found) == count:
                    return found
    return found


def read_batch(batch: List[Item]) -> float:
    """Read all items; the time of the slowest."""
    slowest = 0.0
    for path, offset, size in batch:
        start = time.monotonic()
        with open(path, "rb", buffering=0) as file:
            file.seek(offset)
            left = size
            while left > 0:
                data = file.read(min(left, 1 << 20))
                if not data:
                    break
                left -= len(data)
        slowest = max(slowest, time.monotonic() - start)
    return slowest


def forget(path: str) -> None:
    """Ask the kernel to drop what it holds of a file: pass a must not read from memory."""
    try:
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    except (OSError, AttributeError):
        return


def in_order(pool: ThreadPoolExecutor, batches: List[List[Item]], ahead: int) -> Iterator[float]:
    """Results in order, at most `ahead` batches on their way."""
    waiting = []
    for batch in batches:
        waiting.append(pool.submit(read_batch, batch))
        if len(waiting) > ahead:
            yield waiting.pop(0).result()
    for future in waiting:
        yield future.result()


def timed(results: Iterable[float], compute_s: float) -> Result:
    """Take each result, sleep; times of all but the first."""
    waits: List[float] = []
    slowest, start = 0.0, None
    source = iter(results)
    while True:
        before = time.monotonic()
        try:
            read_s = next(source)
        except StopIteration:
            break
        if start is not None:
            waits.append(time.monotonic() - before)
            slowest = max(slowest, read_s)
        time.sleep(compute_s)
        start = start or time.monotonic()  # the first batch and its sleep are start-up
    if start is None or not waits:
        raise ValueError("a single batch cannot be timed: more steps are needed")
    return summary(waits, time.monotonic() - start, slowest)


def summary(waits: List[float], took_s: float, slowest_read_s: Optional[float] = None) -> Result:
    """What a pass gives: steps after the first, per second, and the share of time waited."""
    ordered = sorted(waits)
    result: Result = {
        "steps": len(waits),
        "steps_per_s": len(waits) / took_s,
        "wait_share": sum(waits) / took_s,
        "wait_p50_s": ordered[len(ordered) // 2],
        "wait_p99_s": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
    }
    if slowest_read_s is not None:
        result["slowest_read_s"] = slowest_read_s
    return result
