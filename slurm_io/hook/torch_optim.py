"""Counts optimizer steps: they tell training from validation, and where a step ended.

torch 2 has a global post-step hook; before it, the wrapper that torch itself puts around each
optimizer's `step` is wrapped once more.
"""

from __future__ import annotations

import functools
from time import monotonic_ns

from .session import SESSION
from .span import is_marked, mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable


def patch(module: Any) -> None:
    """Hook the optimizers of a freshly imported torch.optim.optimizer."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(step_counter())
    elif not is_marked(module.Optimizer.profile_hook_step):
        old = module.Optimizer.profile_hook_step
        module.Optimizer.profile_hook_step = staticmethod(_wrap_profile_hook(old))


def step_counter() -> Callable[..., None]:
    """A post-step hook: one optimizer step ended now."""
    session, now = SESSION, monotonic_ns

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        session.step_end_ns = now()
        session.steps += 1

    return mark(after_step)  # type: ignore[no-any-return]


def _wrap_profile_hook(old: Callable[..., Any]) -> Callable[..., Any]:
    after_step = step_counter()

    @functools.wraps(old)
    def profile_hook_step(step: Callable[..., Any]) -> Callable[..., Any]:
        profiled = old(step)

        @functools.wraps(profiled)
        def counted_step(*args: Any, **kwargs: Any) -> Any:
            result = profiled(*args, **kwargs)
            after_step(None, args, kwargs)
            return result

        return counted_step

    return mark(profile_hook_step)  # type: ignore[no-any-return]
