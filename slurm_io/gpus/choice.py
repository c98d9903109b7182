"""Which GPUs of a node are a job's: what Slurm and CUDA write, and what it means here.

Numbers are not all the same thing. Slurm's SLURM_JOB_GPUS counts the devices of gres.conf: with
AutoDetect in the order of PCI addresses, which is nvidia-smi's too; by older versions and where
the file was written by hand it may be the N of /dev/nvidiaN. On most nodes these agree. Where they
do not, both readings are taken and that is said.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from slurm_io.gpus.model import Identity, Wish

_OLD_MIG = re.compile(r"MIG-(GPU-[0-9A-Fa-f-]{8,64})/(\d{1,3})/(\d{1,3})", re.ASCII)


class Chosen(NamedTuple):
    """`places` are positions in the list that was chosen from; `instances` the UUIDs and old names
    of the MIG instances meant, () for all there are. `doubt` says what could not be told apart."""

    places: tuple[int, ...]
    instances: tuple[str, ...] = ()
    doubt: str = ""
    by_number: bool = False


def choose_for(wish: Wish, seen: Sequence[Identity]) -> Chosen:
    """Which of the GPUs `seen`, all of one vendor, are wished for."""
    if wish.words is not None:
        return choose(wish.words, seen)
    if wish.files is None:
        return Chosen(tuple(range(len(seen))))
    files = wish.files
    return Chosen(
        tuple(
            place
            for place, each in enumerate(seen)
            if each.minor in (files.nvidia if each.vendor == "nvidia" else files.render)
        )
    )


def choose(words: Sequence[str], seen: Sequence[Identity]) -> Chosen:
    """Which of the GPUs `seen` the `words` mean."""
    numbers = {int(word) for word in words if word.isdecimal()}
    uuids = [word for word in words if not word.isdecimal()]
    chosen = _by_number(numbers, seen) if numbers else Chosen(())
    places = {*chosen.places, *(place for uuid in uuids for place in _by_uuid(uuid, seen))}
    instances = tuple(uuid for uuid in uuids if uuid.startswith("MIG-"))
    return chosen._replace(
        places=tuple(sorted(places)), instances=instances, by_number=bool(numbers)
    )


def names_instances(words: Sequence[str]) -> bool:
    """Whether MIG instances are meant by UUID, which only the driver can trace to their GPU."""
    return any(word.startswith("MIG-") and _OLD_MIG.fullmatch(word) is None for word in words)


def is_meant(instance: Identity, names: Sequence[str]) -> bool:
    """Whether a MIG instance is among `names` (all are, where none is named)."""
    old = f"MIG-{instance.parent_uuid}/{instance.mig}"
    return not names or any(name == old or _begins(instance.uuid, name) for name in names)


def _by_number(numbers: set[int], seen: Sequence[Identity]) -> Chosen:
    in_order = {place for place, each in enumerate(seen) if each.gpu in numbers}
    by_file = {place for place, each in enumerate(seen) if each.minor in numbers}
    if len(seen) == len(numbers):  # a control group lets us see the job's and no other
        return Chosen(tuple(range(len(seen))))
    if in_order == by_file or not by_file:
        return Chosen(tuple(in_order))
    if not in_order:
        return Chosen(tuple(by_file))
    listed = ",".join(map(str, sorted(numbers)))
    doubt = (
        f"GPUs {listed} may be counted in the order of PCI addresses or by device file, which "
        "differ here: both are recorded"
    )
    return Chosen(tuple(in_order | by_file), doubt=doubt)


def _by_uuid(word: str, seen: Sequence[Identity]) -> list[int]:
    old = _OLD_MIG.fullmatch(word)
    wanted = old[1] if old else word
    return [place for place, each in enumerate(seen) if _begins(each.uuid, wanted)]


def _begins(uuid: str | None, word: str) -> bool:
    """CUDA takes the beginning of a UUID for the whole."""
    return uuid is not None and uuid.lower().startswith(word.lower())
