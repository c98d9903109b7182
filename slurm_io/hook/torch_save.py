"""Times checkpoints and loads: torch.save, torch.load, distributed checkpoints, safetensors,
Lightning's.

A save on a thread beside training is background work by nature (DCP's async_save by thread,
Lightning's AsyncCheckpointIO). DCP's own writer threads call torch.save for every tensor: that is
part of the save around them and not recorded.
"""

from __future__ import annotations

import functools
import sys
from _thread import get_ident
from time import monotonic_ns

from . import record, text
from .clock import event_flags
from .session import SESSION
from .span import is_marked, mark, open_span, path_field, timed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Future
    from typing import Any, Callable

_DCP = "torch.distributed.checkpoint"


def patch_serialization(module: Any) -> None:
    """torch.serialization; the names in `torch` too when torch was there before us."""
    _replace(
        module,
        "save",
        lambda old: _quiet_inside_dcp(old, _timer(record.CKPT_SAVE, "f", 1)(old)),
        "torch",
    )
    _replace(module, "load", _timer(record.LOAD, "f", 0), "torch")


def patch_dcp_saver(module: Any) -> None:
    """torch.distributed.checkpoint.state_dict_saver."""
    _replace(module, "save", _time_dcp_save, _DCP)
    if hasattr(module, "async_save"):  # since torch 2.2
        _replace(module, "async_save", _time_dcp_async_save, _DCP)


def patch_dcp_loader(module: Any) -> None:
    """torch.distributed.checkpoint.state_dict_loader."""
    if hasattr(module, "load"):
        _replace(module, "load", lambda old: timed(old, record.LOAD, _dcp_target), _DCP)


def patch_safetensors(module: Any) -> None:
    """safetensors.torch."""
    _replace(module, "save_file", _timer(record.CKPT_SAVE, "filename", 1))
    _replace(module, "load_file", _timer(record.LOAD, "filename", 0))


def patch_lightning(module: Any) -> None:
    """Lightning's torch_io: torch.save fills a buffer there, what writes it to a file is theirs."""
    _replace(module.TorchCheckpointIO, "save_checkpoint", _timer(record.CKPT_SAVE, "path", 2))


def _replace(module: Any, name: str, wrap: Callable[[Any], Any], package: str = "") -> None:
    """Put the wrapper in the module or class, and in the package that had imported the name."""
    original = getattr(module, name)
    if is_marked(original):
        return
    wrapper = wrap(original)
    setattr(module, name, wrapper)
    importer = sys.modules.get(package)
    if getattr(importer, name, None) is original:
        setattr(importer, name, wrapper)


def _timer(kind: int, name: str, position: int) -> Callable[[Any], Any]:
    """Wraps functions whose target is the argument `name`, at `position`."""

    def find_target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[position] if len(args) > position else kwargs.get(name)

    return lambda original: timed(original, kind, find_target)


def _quiet_inside_dcp(original: Callable[..., Any], timed_save: Callable[..., Any]) -> Any:
    """torch.save: timed, except on another thread while a distributed save runs."""

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        if SESSION.dcp_saves > 0 and not event_flags(get_ident()):
            return original(*args, **kwargs)
        return timed_save(*args, **kwargs)

    return mark(save)


def _time_dcp_save(original: Callable[..., Any]) -> Any:
    timed_save = timed(original, record.CKPT_SAVE, _dcp_target)

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        SESSION.dcp_saves += 1
        try:
            return timed_save(*args, **kwargs)
        finally:
            SESSION.dcp_saves -= 1

    return mark(save)


def _time_dcp_async_save(original: Callable[..., Any]) -> Any:
    """The blocking part is the call; a background process is timed by the future in the answer."""

    @functools.wraps(original)
    def async_save(*args: Any, **kwargs: Any) -> Any:
        span = open_span(record.CKPT_ASYNC)
        if span is None:
            return original(*args, **kwargs)
        where = _dcp_target(args, kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            span.close(error, path_field(where), None)
            raise
        span.close(None, path_field(where), None)
        if getattr(kwargs.get("async_checkpointer_type"), "name", "") == "PROCESS":
            _time_future(getattr(result, "upload_completion", result), where)
        return result

    return mark(async_save)


def _time_future(future: Future[Any], where: Any) -> None:
    start_ns = monotonic_ns()

    def finished(done: Future[Any]) -> None:
        failed = record.FAILED if done.cancelled() or done.exception() is not None else 0
        told = text.encode(path_field(where))
        SESSION.event(
            failed, record.CKPT_BACKGROUND, start_ns, monotonic_ns(), record.UNKNOWN, told
        )

    try:
        future.add_done_callback(finished)
    except Exception as error:
        SESSION.turn_off(error)


def _dcp_target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The checkpoint's folder: checkpoint_id, or the path of the storage writer or reader."""
    if kwargs.get("checkpoint_id") is not None:
        return kwargs["checkpoint_id"]
    storage = kwargs.get("storage_writer", kwargs.get("storage_reader"))
    return getattr(storage, "path", None)
