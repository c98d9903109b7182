"""F24: a large part of the batches is padding.

What it flags
-------------
Three tenths and more of the tokens that the batches hold are padding, by their attention masks.

Why it matters
--------------
A padded token costs the GPU as much as a real one in every dense layer, and utilisation looks
perfect. It is no matter of storage: faster reading changes nothing.

Evidence
--------
The hook looks at ``attention_mask`` of a batch now and then: of a mapping, a tensor of two
dimensions in the CPU's memory, one for a token and zero for padding; a part of its rows. Or what
the training script reports through ``slurm_io_hook.watch(loader, padding=...)``.

What to do
----------
Pack several sequences into one (with block masks or ``position_ids``), or bring sequences of like
length together, so that a batch is padded to its own longest and not to the model's.

Known false alarms
------------------
What it costs is not known: kernels for variable length (FlashAttention's varlen, models that unpad)
skip padding, and the share of tokens is then no share of time. So no GPU hours are named, and the
finding is information. Fixed shapes may be wanted, for compilation or the accelerator's sake. Masks
that hide real tokens look like padding only where they begin or end all rows.

Thresholds
----------
``thresholds.padding_share`` (30 % of the tokens looked at), over at least 10 batches and 50 000
tokens.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from slurm_io.analysis.facts import mapping, whole
from slurm_io.analysis.picture import Picture
from slurm_io.analysis.rules.base import (
    RULES,
    Answer,
    Evidence,
    Finding,
    Needs,
    Place,
    shortness,
)

KIND = "padding"
_MOST_EVENTS = 50_000


@dataclass(frozen=True)
class _Seen:
    """Sums over the batches that were looked at in training. `told`: by the script itself."""

    looks: int
    tokens: int
    padding: int
    told: bool
    maskless: bool


@RULES.register("f24_padding")
class Padding:
    """Much of the batches is padding."""

    code = "F24"
    title = "batches are padded far beyond their tokens"
    needs: Needs = "steps"

    def judge(self, picture: Picture) -> Answer:
        """By what the hook or the script said of batches."""
        seen, limits = _look(picture), picture.thresholds.rules.padding
        if not seen.looks:
            if seen.maskless:
                return Answer("quiet", "batches carry no attention mask that could be read")
            return Answer("not enough evidence", "no batch was looked at for padding (hook)")
        if seen.looks < limits.least_looks or seen.tokens < limits.least_tokens:
            why = f"{seen.looks} batches with {seen.tokens} tokens were looked at for padding"
            return Answer("not enough evidence", why)
        share = seen.padding / seen.tokens
        if share < limits.share:
            return Answer("quiet", f"{share:.0%} of {seen.tokens} tokens looked at were padding")
        return Answer("fired", findings=(_finding(picture, seen, share),))


def _look(picture: Picture) -> _Seen:
    events = picture.tables.frame("events", ("mono_ns", "pid", "kind", "detail"))
    mine = events.filter((pl.col("kind") == KIND) & pl.col("detail").is_not_null())
    windows = {(one.node, one.pid): one for one in picture.timeline.processes}
    looks = tokens = padding = 0
    told = maskless = False
    spread = mine.gather_every(1 + mine.height // _MOST_EVENTS)
    for node, start, pid, _, detail in spread.iter_rows():
        process = windows.get((str(node), pid))
        if process is None:
            continue
        facts = _facts(detail)
        maskless = maskless or facts.get("masks") is False
        if start is None or not process.opens <= start <= process.closes:
            continue
        one, of = whole(facts.get("padding")), whole(facts.get("tokens"))
        if one is None or of is None or not 0 <= one <= of or of == 0:
            continue
        looks, tokens, padding = looks + 1, tokens + of, padding + one
        told = told or facts.get("by") == "user"
    return _Seen(looks, tokens, padding, told, maskless)


def _facts(detail: str) -> dict[str, object]:
    try:
        return mapping(json.loads(detail))
    except ValueError:
        return {}


def _finding(picture: Picture, seen: _Seen, share: float) -> Finding:
    who = "as the script told" if seen.told else "by their attention masks"
    limit = picture.thresholds.rules.padding.share
    text = (
        f"{share:.0%} of {seen.tokens} tokens in {seen.looks} batches looked at were padding, {who}"
    )
    return Finding(
        rule="F24",
        severity="info",
        confidence="likely",  # one signal, and what it costs depends on the model's kernels
        title=f"{share:.0%} of the tokens in the batches are padding",
        lost_gpu_s=None,
        where=Place(),
        evidence=(Evidence(text, "padding_share", share, limit), *shortness(picture)),
        remedy="pack sequences, or group those of like length and pad to the longest of the batch; "
        "no gain where the model's kernels skip padding already",
        commands=(
            "TrainingArguments(..., train_sampling_strategy='group_by_length')  # transformers 5",
            "DataCollatorWithFlattening()  # transformers: packs, no padding at all",
            "SFTConfig(..., packing=True)  # trl",
        ),
    )
