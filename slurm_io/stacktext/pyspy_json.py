"""``py-spy dump --json``: a list of threads, each with ``frames`` innermost first.

``os_thread_id`` is null for Python 3.10 and older, and ``active`` means nothing there with
``--nonblocking``. One process a call: ``--subprocesses`` is ignored with ``--json``.
"""

from __future__ import annotations

import json
from typing import Any

from slurm_io.stacktext.model import MOST_FRAMES, MOST_THREADS, Dump, Frame, Thread
from slurm_io.stacktext.texts import frame_of, text_of


def parse_dump_json(raw: bytes | str) -> Dump:
    """The threads of a dump; an empty Dump with one dropped line when it is no such JSON."""
    try:
        data = json.loads(text_of(raw))
    except (ValueError, RecursionError):
        return Dump(dropped_lines=1)
    if not isinstance(data, list):
        return Dump(dropped_lines=1)
    threads = [_thread(item) for item in data[:MOST_THREADS]]
    whole = tuple(one for one, _ in threads if one is not None)
    return Dump(
        threads=whole,
        dropped_frames=sum(dropped for _, dropped in threads),
        dropped_lines=len(data) - len(whole),
    )


def _thread(item: object) -> tuple[Thread | None, int]:
    if not isinstance(item, dict) or not isinstance(item.get("frames"), list):
        return None, 0
    found = [_frame(frame) for frame in item["frames"][:MOST_FRAMES]]
    frames = tuple(frame for frame in found if frame is not None)
    ident = item.get("os_thread_id") or item.get("thread_id")
    thread = Thread(
        frames=frames,
        ident=str(ident) if _is_whole(ident) else "",
        name=str(item.get("thread_name") or "")[:256],
        status=_status(item),
        pid=item["pid"] if _is_whole(item.get("pid")) else None,
    )
    return thread, len(item["frames"]) - len(frames)


def _status(item: dict[str, Any]) -> str | None:
    if not isinstance(item.get("active"), bool):
        return None
    if not item["active"]:
        return "idle"
    return "active+gil" if item.get("owns_gil") is True else "active"


def _frame(item: object) -> Frame | None:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return None
    file, line = item.get("short_filename") or item.get("filename") or "", item.get("line")
    if not isinstance(file, str):
        return None
    return frame_of(item["name"], file, line if _is_whole(line) else None)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
