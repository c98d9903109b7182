"""Hugging Face Trainer: Python dict lines, a summary at the end, a bar that counts the steps.

``{'loss': 0.1781, 'grad_norm': 0.0911, 'learning_rate': 1e-05, 'epoch': 7.54}`` (numbers; in newer
versions strings of four digits; nan stands bare) carries no step: the bar does, and the summary
``{'train_runtime': 312.4662, …, 'train_steps_per_second': 44.139, …, 'epoch': 8.0}`` tells how many
there were. One log may hold several trainings, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from slurm_io.joblog.bar_reading import progress
from slurm_io.joblog.epochs import steps_of_epochs
from slurm_io.joblog.figures import Fields, only_whole, ratio, rounding
from slurm_io.joblog.forms.base import FORMS, Form, known, with_nan
from slurm_io.joblog.model import TORN, Bar, Line, Reading

_PAIR = re.compile(r"'([\w/ .-]{1,80})': (?:'([^']{0,64})'|([^,'{}]{1,64}))(?=[,}])", re.ASCII)
_MOST_EPOCHS = 64


@FORMS.register("hf_trainer")
class HfTrainer(Form):
    """Bars once a dict line was seen (before, any program's bar looks so), losses, summaries."""

    name = "hf_trainer"
    markers = (b"'loss'", b"'train_runtime'", b"'eval_runtime'")
    has_stamps = False

    def __init__(self) -> None:
        self._seen = False
        self._ended = False
        self._total: int | None = None
        self._epochs: list[tuple[float, float]] = []
        self._lines = 0

    def read(self, line: Line) -> Iterable[Reading]:
        """One dict a line."""
        start = line.text.find("{'")
        if start < 0:
            return ()
        end = line.text.find("}", start)
        if end < 0:
            return [TORN]
        pairs = _PAIR.findall(line.text[start : end + 1])
        fields = Fields({name: text or bare for name, text, bare in pairs})
        if "train_runtime" in fields:
            return [self._summary(fields)]
        if "eval_runtime" in fields:
            detail = known(
                duration_s=fields.number("eval_runtime"),
                loss=fields.number("eval_loss"),
                epoch=fields.number("epoch"),
            )
            return [Reading("eval", detail=with_nan(detail, fields.nan))]
        return [self._loss(fields)] if "loss" in fields and "epoch" in fields else ()

    def bar(self, bar: Bar) -> Reading | None:
        """The bar without a name."""
        if bar.description or bar.total is None:
            return None
        self._total = bar.total
        return progress(bar, bar.n) if self._seen else None

    def _loss(self, fields: Fields) -> Reading:
        epoch = fields.number("epoch")
        begins = self._ended
        if epoch is not None:
            begins = begins or bool(self._epochs) and epoch < self._epochs[-1][0]
        if begins:
            self._forget_run()
        self._seen = True
        self._lines += 1
        if epoch is not None:
            self._epochs.append((epoch, rounding(fields.text("epoch"))))
            del self._epochs[:-_MOST_EPOCHS]
        numbers = {name: fields.number(name) for name in ("loss", "grad_norm", "learning_rate")}
        detail = known(
            epoch=epoch,
            loss=numbers["loss"],
            grad_norm=numbers["grad_norm"],
            lr=numbers["learning_rate"],
        )
        return Reading("loss", new_run=begins, detail=with_nan(detail, fields.nan))

    def _summary(self, fields: Fields) -> Reading:
        begins = self._ended  # a training too short for a loss line
        if begins:
            self._forget_run()
        self._seen = self._ended = True
        runtime_s = fields.number("train_runtime")
        steps = self._steps(fields)
        epoch = fields.number("epoch")
        samples_per_s = fields.number("train_samples_per_second")
        of_lines = steps_of_epochs(self._epochs, steps / epoch, steps) if steps and epoch else None
        tokens_per_s = fields.number("train_tokens_per_second")
        detail = known(
            runtime_s=runtime_s,
            steps=steps,
            basis="run",
            saves="included",
            epoch=epoch,
            loss_lines=self._lines,
            loss_steps=of_lines,
            loss=fields.number("train_loss"),
            tokens_base="total" if tokens_per_s is not None else None,
        )
        return Reading(
            "run_end", steps, ratio(runtime_s, steps), samples_per_s, tokens_per_s,
            new_run=begins, detail=with_nan(detail, fields.nan),
        )  # fmt: skip

    def _steps(self, fields: Fields) -> int | None:
        """Run time x steps/s, as far as rounding allows one number; else the bar's total."""
        names = "train_runtime", "train_steps_per_second"
        runtime_s, rate = (fields.number(name) for name in names)
        if runtime_s is None or rate is None:
            return None
        half_time, half_rate = (rounding(fields.text(name)) for name in names)
        low = (runtime_s - half_time) * (rate - half_rate)
        high = (runtime_s + half_time) * (rate + half_rate)
        steps = only_whole(low, high)
        if steps is None and self._total is not None and low <= self._total <= high:
            return self._total
        return steps

    def _forget_run(self) -> None:
        self._ended = False
        self._epochs, self._lines = [], 0
