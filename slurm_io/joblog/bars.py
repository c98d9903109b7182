"""Progress bars: the last state of each, whatever number of times it was rewritten.

tqdm: ``Epoch 0:   3%|▎    | 9000/301500 [1:42:42<55:37:46,  1.46it/s, loss=0.3]``; rich:
``Epoch 4/9  ━━━━━━━╺━━━ 232/291 0:00:33 • 0:00:09 7.00it/s loss: 0.398``. A bar is parsed only when
it is taken: of the hundreds of states between two takes most are never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slurm_io.joblog.clean import decoded, without_escapes, without_labels
from slurm_io.joblog.figures import seconds
from slurm_io.joblog.model import Bar

MARKERS = (b"it/s", b"s/it", b"%|", b"/s, ", b"/? [")
_MOST_BARS = 8
_LONGEST_BAR_BYTES = 4096
_LONGEST_KEY_BYTES = 48
# What moves in a bar: how far of how many. The rest is looked at later.
_STATE = re.compile(
    rb"[| ]([0-9]{1,15})(?:/([0-9]{1,15}|\?|--)(?: \[| [0-9][0-9:]{0,10} \xe2\x80\xa2)|it \[)"
)
_DIGITS = re.compile(rb"[0-9]+")
_TQDM = re.compile(
    r"(?<![\w./])([0-9]{1,15})(?:/([0-9]{1,15}|\?)|it) \[([^\]\[]{1,2000})\]", re.ASCII
)
_PERCENT = re.compile(r"\s*[0-9]{1,3}%$", re.ASCII)
_RICH = re.compile(
    r"(Epoch [0-9]{1,7}(?:/[0-9]{1,7})?)[^0-9]{1,400}([0-9]{1,15})/([0-9]{1,15}|--) "
    r"([0-9][0-9a-z:, ]{0,24}) • [^ ]{1,24} ([0-9.]{1,16}it/s)(.{0,2000})",
    re.ASCII,
)
_COLON_PAIR = re.compile(r"([A-Za-z_][\w/ .-]{0,62}?): ?([^\s:]{1,64})(?= |$)")


class SeenBar(NamedTuple):
    """A bar as of now. `run` counts how often this bar began anew, from 1."""

    bar: Bar
    label: str
    at_byte: int
    run: int


class _State(NamedTuple):
    raw: bytes
    n: int
    at_byte: int
    run: int
    is_new: bool


class Bars:
    """Bars of one log, told apart by what stands before them and by their total."""

    def __init__(self) -> None:
        self._states: dict[tuple[bytes, bytes], _State] = {}
        self._over: list[_State] = []

    def offer(self, segment: bytes, at_byte: int) -> bool:
        """Take note of a state; False when `segment` holds no bar."""
        if len(segment) > _LONGEST_BAR_BYTES:
            return False
        segment = without_escapes(segment)
        found = _STATE.search(segment)
        if found is None:
            return False
        key = _key_of(segment, found[2] or b"")
        n = int(found[1])
        before = self._states.pop(key, None)
        run = 1 if before is None else before.run
        if before is not None and n < before.n:
            run += 1
            self._over += [before] if before.is_new else []
            del self._over[:-_MOST_BARS]
        # The same state again (a bar that is only looked at, not finished) is nothing new.
        is_new = before is None or before.is_new or n != before.n or run != before.run
        self._states[key] = _State(segment, n, at_byte, run, is_new)
        while len(self._states) > _MOST_BARS:
            del self._states[next(iter(self._states))]
        return True

    def take(self) -> Iterator[SeenBar]:
        """Bars that moved since the last call, finished ones first, in the order of their moves."""
        moved = [*self._over, *(state for state in self._states.values() if state.is_new)]
        self._over = []
        self._states = {
            key: state._replace(is_new=False) for key, state in self._states.items()
        }  # fmt: skip
        for state in moved:
            label, text = without_labels(decoded(state.raw))
            bar = parse_bar(text)
            if bar is not None:
                yield SeenBar(bar, label, state.at_byte, state.run)


def _key_of(segment: bytes, total: bytes) -> tuple[bytes, bytes]:
    """``Epoch 0`` and ``Epoch 1`` are one bar; an evaluation's has another name or total."""
    head = segment[: segment.find(b"|") if b"|" in segment else 0][:_LONGEST_KEY_BYTES]
    return _DIGITS.sub(b"", head).replace(b"%", b"").strip(), total


def parse_bar(text: str) -> Bar | None:
    """The first bar in a text; None when there is no whole one."""
    found = _TQDM.search(text)
    if found is not None:
        n, total, inside = found.groups()
        times, _, rest = inside.partition(",")
        rate, postfix = _tqdm_rest(rest)
        description = _description(text[: found.start()])
        elapsed = times.partition("<")[0]
        return _bar(description, n, total, elapsed, rate, postfix, is_rich=False)
    found = _RICH.search(text)
    if found is None:
        return None
    description, n, total, elapsed, rate, rest = found.groups()
    return _bar(description, n, total, elapsed, rate, dict(_COLON_PAIR.findall(rest)), is_rich=True)


def _bar(
    description: str,
    n: str,
    total: str | None,
    elapsed: str,
    rate: str,
    postfix: dict[str, str],
    is_rich: bool,
) -> Bar:
    known = int(total) if total is not None and total.isdigit() else None
    return Bar(description, int(n), known, seconds(elapsed), rate, postfix, is_rich)


def _description(before: str) -> str:
    """``Epoch 0`` of ``Epoch 0: :   3%|▎         | ``."""
    head = before.partition("|")[0]
    return _PERCENT.sub("", head).strip(" :")


def _tqdm_rest(rest: str) -> tuple[str, dict[str, str]]:
    """What follows the times: a rate unless the bar's format leaves it out, then pairs."""
    parts = [part.strip() for part in rest.split(",")]
    rate = parts.pop(0) if "=" not in parts[0] else ""
    pairs = (part.partition("=") for part in parts)
    return rate, {name: value for name, equals, value in pairs if equals}
