"""Looking frames up: what holds for every library's rules."""

from __future__ import annotations

import pytest

from slurm_io.frames.thread import judge_thread
from tests.frames.stacks import MODULE, TABLE, stack

IMPORTING = (
    "_call_with_frames_removed (<frozen importlib._bootstrap>:241)",
    "_find_and_load (<frozen importlib._bootstrap>:1176)",
    MODULE,
)


@pytest.mark.parametrize(
    "file",
    [
        "torch/_dynamo/variables/torch.py",
        "torch/autograd/__init__.py",
        "torch/distributed/_functional_collectives.py",
    ],
)
def test_a_librarys_module_that_is_imported_neither_computes_nor_communicates(file: str) -> None:
    """Its functions would; its body runs because somebody imports it."""
    body = judge_thread(stack(f"<module> ({file}:12)", *IMPORTING), TABLE, True)
    assert (body.state, body.certain) == ("import", True)
    called = judge_thread(stack(f"f ({file}:12)", MODULE), TABLE, True)
    assert called.state in ("compute", "collective")
