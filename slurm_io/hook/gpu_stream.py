"""Which stream trains: the one that optimizers step on, seen at some of their steps (torch 2).

A loop may ask its loader while another stream is the current one: within the context of a stream
for copies, or outside of the one it trains in. What that stream is doing says little then.
"""

from __future__ import annotations

import sys

from .session import debug

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOOKS_AT_FIRST = 3
_STEPS_A_LOOK = 64
_NEVER = 1 << 62


class TrainingStream:
    """Until a step was seen the default stream is taken to train. `handle`: 0 is the default's."""

    def __init__(self, cuda: Any) -> None:
        self.handle = 0
        self._current = cuda.current_stream
        self._default = cuda.default_stream
        self._seen: Any = None
        self._looks = 0
        self._until_look = 0

    def beside(self, stream: Any) -> Any:
        """The stream that trains on the device of `stream`; None where that is it."""
        training = self._seen
        if training is None or training.device != stream.device:
            training = self._default(stream.device)
        return None if training.cuda_stream == stream.cuda_stream else training

    def after_step(self) -> None:
        """An optimizer stepped: look at the stream, seldom. Never raises.

        A stream that another library made is not kept: that may destroy it.
        """
        self._until_look -= 1
        if self._until_look >= 0:
            return
        try:
            self._looks += 1
            self._until_look = 0 if self._looks < _LOOKS_AT_FIRST else _STEPS_A_LOOK - 1
            stream = self._current()
            is_of_torch = stream.cuda_stream == 0 or stream.stream_id & 1
            if is_of_torch and stream.cuda_stream != self.handle:
                self._seen, self.handle = stream, stream.cuda_stream
        except Exception as error:
            self._until_look = _NEVER
            debug("the stream of optimizers is not known: %r" % (error,))


def watch_steps(owner: Any) -> None:
    """Have `owner.training` told of optimizer steps, once a process; it may be None."""
    optimizers = sys.modules.get("torch.optim.optimizer")
    register = getattr(optimizers, "register_optimizer_step_post_hook", None)
    hooks = getattr(optimizers, "_global_optimizer_post_hooks", {})
    if register is None or any(hasattr(hook, "_slurm_io_stream") for hook in hooks.values()):
        return

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        training = owner.training
        if training is not None:
            training.after_step()

    hook: Any = after_step
    hook._torchdynamo_disable = hook._slurm_io_timed = hook._slurm_io_stream = True
    register(hook)
