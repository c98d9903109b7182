"""Megatron-LM and what descends from it (Megatron-DeepSpeed, BigScience, MindSpeed).

`` [2025-05-09 06:11:20] iteration        2/      10 | consumed samples:           64 | elapsed time
per iteration (ms): 3286.6 | … |``: old lines have no stamp, BigScience prints seconds, some write
``elapsed_time_per_iteration_ms=3286.6``. The time is already a mean per iteration; the timer is
stopped around saves and evaluations. What the loader took follows in lines of their own:
``time (ms) | … | batch-generator: 25.27`` or ``    batch-generator ....: (10.04, 12.97)``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.figures import Fields, cells_of, in_seconds, number, only_whole, ratio
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Line, Reading
from slurm_io.joblog.stamps import Stamp, find_stamp

_HEAD = re.compile(r"\biteration[= ]+([0-9]{1,15})/ *([0-9]{1,15}) *\|", re.ASCII)
_BEGINNING = re.compile(r"(?:==> ?)?iteration(?:[= ]+[0-9]*(?:/ *[0-9]*)?)? *(?:\||$)", re.ASCII)
_STAMP_BEFORE = re.compile(r"^\s*(?:\[[-0-9:.T ]{8,32}\] *)*")
_EVAL = re.compile(
    r"valid(?:ation)? loss at iteration ([0-9]{1,15})\b[^|]{0,200}\| lm loss value: *([^ |]{1,32})",
    re.ASCII,
)
_SAVING = re.compile(r"saving checkpoint at iteration +([0-9]{1,15})", re.ASCII)
_SAVED = re.compile(r"successfully saved checkpoint (?:at|from) iteration +([0-9]{1,15})", re.ASCII)
_TIMER = re.compile(
    r"\b(batch-generator|save-checkpoint) *\.*: *(?:\(([0-9.]{1,24}), *)?([0-9.]{1,24})\)?",
    re.ASCII,
)
_MOST_NAMES = 256
_LONGEST_NAME = 80
_TIME_NAMES = {
    "elapsed time per iteration (ms)": "ms",
    "elapsed time per iteration ms": "ms",
    "elapsed time per iteration (s)": "s",
    "elapsed time per iteration s": "s",
}
_TOKENS_A_GPU = (
    "tokens per gpu per second (tgs)", "tokens per gpu per second tgs", "tokens per second per gpu",
    "tokens per sec per gpu",
)  # fmt: skip


@FORMS.register("megatron")
class Megatron(Form):
    """Steps, evaluations, saves and the loader's timer."""

    name = "megatron"
    markers = (b"iteration", b"batch-generator", b"save-checkpoint")
    has_stamps = False

    def __init__(self) -> None:
        self._saving: tuple[str, Stamp | None] | None = None
        self._names: dict[str, str] = {}

    def read(self, line: Line) -> Iterable[Reading]:
        """A line is of one kind only."""
        text = line.text
        head = _HEAD.search(text)
        if head is not None and "per" in text:
            return self._step(text[head.end() :], int(head[1]), int(head[2]))
        if "batch-generator" in text or "save-checkpoint" in text:
            return _timers(text)
        found = _EVAL.search(text)
        if found is not None:
            fields = Fields({"loss": found[2]})
            detail = known(loss=fields.number("loss"))
            return [Reading("eval", int(found[1]), detail=with_nan(detail, fields.nan))]
        if "checkpoint" in text:
            return self._checkpoint(text)
        stamp = _STAMP_BEFORE.match(text)
        return [TORN] if _BEGINNING.match(text[stamp.end() if stamp else 0 :]) else ()

    def _step(self, rest: str, step: int, total: int) -> list[Reading]:
        cells = cells_of(rest)
        fields = Fields(self._named(cells))
        time_name = next((name for name in _TIME_NAMES if name in fields), None)
        if time_name is None:
            return [TORN] if "elapsed" in rest or len(cells) < 3 else []
        step_time_s = in_seconds(fields.text(time_name), _TIME_NAMES[time_name])
        if step_time_s is None:
            return [TORN]
        batch = fields.whole("global batch size")
        samples_per_s = fields.number("samples per second") or ratio(batch, step_time_s)
        tokens_a_sample = _tokens_a_sample(fields)
        tokens_per_s = (
            samples_per_s * tokens_a_sample if samples_per_s and tokens_a_sample else None
        )
        per_gpu = fields.number(*_TOKENS_A_GPU)
        loss_name = next((name for name in ("lm loss", "loss", "total loss") if name in fields), "")
        detail = known(
            total_steps=total,
            basis="interval",
            saves="excluded",
            global_batch=batch,
            loss=fields.number(loss_name),
            lr=fields.number("learning rate"),
            skipped=fields.whole("number of skipped iterations"),
            nan_iterations=fields.whole("number of nan iterations"),
            tokens_base="total" if tokens_per_s is not None else None,
            tokens_per_sample=tokens_a_sample,
            tokens_per_s_per_gpu=per_gpu,
            gpus=_gpus(tokens_per_s, per_gpu),
        )
        detail = with_nan(detail, fields.nan)
        return [Reading("step", step, step_time_s, samples_per_s, tokens_per_s, detail=detail)]

    def _named(self, cells: list[str]) -> dict[str, str]:
        """``elapsed time per iteration (ms): 3286.6`` or ``elapsed_time_per_iteration_ms=3286.6``.
        Line after line the names are the same."""
        found = {}
        for cell in cells:
            text, sign, value = cell.partition(":")
            if not sign:
                text, sign, value = cell.partition("=")
                if not sign:
                    continue
            name = self._names.get(text)
            if name is None:
                name = text.strip().lower().replace("_", " ").replace("-", " ")
                if len(self._names) < _MOST_NAMES and len(text) < _LONGEST_NAME:
                    self._names[text] = name
            found[name] = value
        return found

    def _checkpoint(self, text: str) -> list[Reading]:
        begins = _SAVING.search(text)
        if begins is not None:
            self._saving = (begins[1], find_stamp(text))
            return []
        ends = _SAVED.search(text)
        if ends is None:
            return []
        detail = known(duration_s=self._since_begin(ends[1], find_stamp(text)))
        self._saving = None
        return [Reading("ckpt_save", int(ends[1]), detail=detail)]

    def _since_begin(self, step: str, end: Stamp | None) -> float | None:
        begin_step, begin = self._saving or ("", None)
        if begin_step != step or begin is None or end is None or end.resolution_s >= 1.0:
            return None
        took_s = end.seconds - begin.seconds
        return round(took_s, 6) if took_s >= 0 else None


def _tokens_a_sample(fields: Fields) -> int | None:
    """Only where both totals say one whole number: the length may have grown on the way."""
    now = fields.whole("actual seqlen")
    if now:
        return now
    samples, tokens = fields.whole("consumed samples"), fields.whole("consumed tokens")
    if not samples or not tokens or tokens % samples:
        return None
    return tokens // samples


def _gpus(tokens_per_s: float | None, per_gpu: float | None) -> int | None:
    share = ratio(tokens_per_s, per_gpu)
    return only_whole(share * 0.998, share * 1.002) if share is not None else None


def _timers(text: str) -> list[Reading]:
    """Milliseconds; of (min, max) over the ranks the slowest counts, for which the others wait."""
    found = []
    for name, _, value in _TIMER.findall(text):
        took_ms = number(value)
        if took_ms is None:
            continue
        if name == "batch-generator":
            detail = {"data_wait_s": round(took_ms / 1000, 9)}
            found.append(Reading("step", amends=True, detail=detail))
        else:
            detail = {"duration_s": round(took_ms / 1000, 9)}
            found.append(Reading("ckpt_save", amends=True, detail=detail))
    return found
