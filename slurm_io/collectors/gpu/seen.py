"""What the helper's answers have told so far: rows as they come, and facts for meta.json."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurm_io.collectors.base import Context, Row, Tick
from slurm_io.gpus.attendant import Attendant
from slurm_io.gpus.model import Wish
from slurm_io.gpus.ranks import gpus_of_ranks

_MOST_XIDS = 256
_FILES_EVERY = 10  # facts come about twice in ten rounds, so once in about fifty
_NOT_KNOWN_WHOSE = "not known whose"


class Seen:
    """Kept over the lives of several helpers. `lost`: GPU -> why."""

    def __init__(self) -> None:
        self.kernel_log: list[dict[str, object]] = []
        self._opened: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self._ranks: dict[str, object] = {}
        self._xids: dict[tuple[object, object], dict[str, object]] = {}
        self._last_ns: int | None = None
        self._times_noted = 0

    @property
    def lost(self) -> dict[str, str]:
        """As of the last answer that told."""
        lost: dict[str, str] = self._facts.get("lost", {})
        return lost

    def begin_anew(self) -> None:
        """Another helper: its first round is the beginning of an interval, not its end."""
        self._last_ns = None

    def take(self, answer: dict[str, Any], tick: Tick, context: Context) -> list[Row]:
        """Rows of one answer, stamped with the helper's own clock."""
        if "opened" in answer:
            self._opened = answer["opened"]
            self._facts = {"lost": self._opened["lost"]}
        if "facts" in answer:
            self._facts = answer["facts"]
            self._note_ranks(context)
        if "rows" not in answer:
            return []
        mono_ns, last_ns = int(answer["mono_ns"]), self._last_ns
        self._last_ns = mono_ns
        ts_ns = tick.ts_ns - tick.mono_ns + mono_ns
        self._count_xids(answer["xids"], ts_ns)
        if last_ns is None:
            return []
        return [(ts_ns, mono_ns, mono_ns - last_ns, *values) for values in answer["rows"]]

    def facts(self, wish: Wish | None, attendant: Attendant) -> dict[str, object]:
        """The source's entry of meta.json; state and reason as of now."""
        opened = self._opened
        is_known = wish is not None and wish.is_known and not opened.get("doubt")
        hangs = _hangs(attendant)
        return {
            **self._state(attendant, hangs),
            "vendors": opened.get("vendors", []),
            "driver": opened.get("driver"),
            "nvml": opened.get("nvml"),
            "library": opened.get("library"),
            "gpus": opened.get("gpus", []),
            "instances": self._facts.get("instances", []),
            "whose": {
                "known": is_known,
                "from": None if wish is None else wish.source,
                "doubt": opened.get("doubt") or ("" if is_known else _NOT_KNOWN_WHOSE),
            },
            "unknown": self._facts.get("unknown", {}),
            "lost": [{"gpu": gpu, "reason": reason} for gpu, reason in self.lost.items()],
            "xids": list(self._xids.values()),
            "kernel_log": list(self.kernel_log),
            "hangs": hangs,
            "helper_starts": attendant.starts,
            "ranks": dict(self._ranks),
        }

    def _state(self, attendant: Attendant, hangs: list[dict[str, object]]) -> dict[str, str]:
        trouble = attendant.trouble
        if trouble:
            return {"state": "partial" if self._opened else "off", "reason": trouble}
        if self.lost:
            why = next(iter(self.lost.values()))
            return {"state": "partial", "reason": f"{len(self.lost)} GPU(s) lost: {why}"}
        if hangs:
            return {"state": "partial", "reason": "a GPU hung and is left out: see hangs"}
        troubles = self._opened.get("troubles", [])
        return {"state": "partial" if troubles else "on", "reason": "; ".join(troubles)}

    def _note_ranks(self, context: Context) -> None:
        """What was seen stays known when the ranks have ended."""
        members = [
            each
            for each in context.members()
            if each.role == "rank" and str(each.rank) not in self._ranks
        ]
        self._times_noted += 1
        if members:
            self._ranks |= gpus_of_ranks(
                members,
                self._facts.get("processes", {}),
                self._opened.get("gpus", []),
                context.proc_root,
                with_files=self._times_noted % _FILES_EVERY == 0,
            )

    def _count_xids(self, xids: Sequence[Sequence[Any]], ts_ns: int) -> None:
        for uuid, xid, instance in xids:
            key = (uuid, xid)
            if key not in self._xids and len(self._xids) >= _MOST_XIDS:
                continue
            known = self._xids.setdefault(key, {"uuid": uuid, "xid": xid, "count": 0})
            count = known["count"]
            assert isinstance(count, int)
            known |= {"instance": instance, "count": count + 1, "last_ts_ns": ts_ns}


def _hangs(attendant: Attendant) -> list[dict[str, object]]:
    return [
        {
            "gpu": hang.gpu,
            "function": hang.function,
            "pid": hang.helper.pid,
            "sleeps_in": hang.sleeps_in,
            "left_behind": not hang.helper.is_gone(),
        }
        for hang in attendant.hangs
    ]
