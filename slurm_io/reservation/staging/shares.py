"""Which donors give to which target now. Pure.

Every donor gives to one target at a time. While there are more donors than targets, a target gets
several (its stage takes other files from each); else every donor has one, and who is ready gives
to the next: the number of copies doubles in the time of one.
"""

from __future__ import annotations

from collections.abc import Sequence


def share(free: Sequence[str], waiting: Sequence[str], most: int) -> dict[str, tuple[str, ...]]:
    """Target -> its donors, best first; targets for which nobody is free are left out. `free`: in
    order of preference. `most`: donors of one target."""
    count = min(len(free), len(waiting))
    if count == 0:
        return {}
    given: dict[str, list[str]] = {target: [] for target in waiting[:count]}
    names = list(given)
    for number, donor in enumerate(free):
        target = names[number % count]
        if len(given[target]) < most:
            given[target].append(donor)
    return {target: tuple(donors) for target, donors in given.items()}
