"""F24: what the hook saw of batches, or the script told."""

from __future__ import annotations

import pytest

from slurm_io.analysis.rules.base import Answer
from tests.analysis.rules.stores import Row, answer, healthy, job, padding_events, text_of
from tests.analysis.stand_in import StandInStore

RULE = "f24_padding"


def store_of(share: float, each: int = 8) -> StandInStore:
    store = job(healthy())
    node = store.nodes["n1"]
    node.tables["events"] += padding_events(node.tables["steps"], share, each)
    return store


def with_detail(detail: str, count: int = 100) -> Answer:
    store = store_of(0.5)
    events = store.nodes["n1"].tables["events"]
    for row in events:
        row["detail"] = detail
    del events[count + 1 :]
    return answer(RULE, store)


def test_mostly_padding() -> None:
    said = answer(RULE, store_of(0.62))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("info", "likely")
    assert finding.lost_gpu_s is None, "kernels for variable length skip padding"
    assert "62% of 610304 tokens in 149 batches" in text_of(said)


@pytest.mark.parametrize(("share", "state"), [(0.0, "quiet"), (0.29, "quiet"), (0.31, "fired")])
def test_three_tenths_separate(share: float, state: str) -> None:
    assert answer(RULE, store_of(share)).state == state


def test_a_few_looks_are_not_enough() -> None:
    assert answer(RULE, store_of(0.9, each=150)).state == "not enough evidence"


def test_batches_without_a_mask_are_quiet_and_unseen_ones_no_answer() -> None:
    said = with_detail('{"loader": 1, "epoch": 0, "masks": false}', 1)
    assert (said.state, "no attention mask" in said.reason) == ("quiet", True)
    unseen = job(healthy())
    unseen.nodes["n1"].tables["events"].clear()
    nothing = answer(RULE, unseen)
    assert (nothing.state, "hook" in nothing.reason) == ("not enough evidence", True)


def test_what_the_script_told_is_named_so() -> None:
    said = with_detail('{"padding": 3000, "tokens": 4096, "by": "user"}')
    assert "as the script told" in text_of(said)


@pytest.mark.parametrize(
    "detail",
    ["", "x", "[]", '{"padding": 5, "tokens": 0}', '{"padding": 9, "tokens": 4}',
     '{"padding": true, "tokens": 4096}', '{"padding": -1, "tokens": 4096}',
     '{"padding": 1e999, "tokens": 4096}'],
)  # fmt: skip
def test_nonsense_is_as_if_not_there(detail: str) -> None:
    assert with_detail(detail).state == "not enough evidence"


def test_looks_before_training_and_of_other_processes_do_not_count() -> None:
    store = store_of(0.9)
    rows: list[Row] = store.nodes["n1"].tables["events"]
    for row in rows:
        row["pid"] = 77
    assert answer(RULE, store).state == "not enough evidence"
