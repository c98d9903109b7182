"""A room for hooks: root-owned folders of their own, nothing left running."""

from collections.abc import Iterator

import pytest

from tests.labs.slurmd_room import SlurmdRoom, private_room


@pytest.fixture
def room() -> Iterator[SlurmdRoom]:
    with private_room() as made:
        yield made
