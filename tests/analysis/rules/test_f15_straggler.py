"""F15: one rank or node holds the others; equal ranks, and independent ones, hold nobody."""

from __future__ import annotations

from collections.abc import Callable

from tests.analysis.rules.stores import answer, job, several, starved, text_of
from tests.analysis.stand_in import Rank, train, train_together

RULE = "f15_straggler"


def together(wait: Callable[[int, int], tuple[float, str]], ranks: int = 4, nodes: int = 4):
    return job(*train_together(several(ranks, nodes), 400, 0.05, wait))


def test_the_slow_rank_and_its_node_are_named() -> None:
    said = answer(RULE, together(lambda r, k: (0.05 if r == 2 else 0.002, "storage")))
    [finding] = said.findings
    assert (finding.where.ranks, finding.where.nodes) == ((2,), ("n3",))
    assert finding.confidence == "proven"
    assert "rank 2 on n3 holds all others" in text_of(said)
    assert "sbatch --exclude=n3 JOB_SCRIPT" in finding.commands


def test_equal_ranks_hold_in_turn() -> None:
    said = answer(RULE, together(lambda r, k: (0.05 if k % 4 == r else 0.03, "storage")))
    assert said.state == "quiet"
    assert "no rank held more than" in said.reason


def test_who_is_always_last_by_a_little_holds_nobody() -> None:
    """Rank 0 waits 51 ms and the others 50: mending it would win one."""
    said = answer(RULE, together(lambda r, k: (0.051 if r == 0 else 0.05, "storage")))
    assert said.state == "quiet"
    assert "1.0 times as long as the other ranks" in said.reason


def test_the_ranks_of_one_node_hold_together() -> None:
    def wait(r: int, k: int) -> tuple[float, str]:
        return (0.05 if r % 4 == 1 and k % 2 == r // 4 else 0.002, "storage")

    said = answer(RULE, together(wait, ranks=8, nodes=4))
    [finding] = said.findings
    assert finding.where.nodes == ("n2",)
    assert finding.where.ranks == (1, 5)
    assert finding.title == "node n2 holds all others"


def test_a_loss_too_small_to_matter_has_no_straggler() -> None:
    said = answer(RULE, together(lambda r, k: (0.003 if r == 2 else 0.002, "storage")))
    assert said.state == "quiet"


def test_two_ranks_are_too_few() -> None:
    said = answer(RULE, together(lambda r, k: (0.05 * r, "storage"), ranks=2, nodes=2))
    assert (said.state, said.reason) == ("quiet", "fewer than three ranks read in lockstep")


def test_independent_ranks_hold_nobody() -> None:
    ranks: list[Rank] = several(4, 4)
    for place, rank in enumerate(ranks):
        train(rank, 400, 0.05 + 0.01 * place, lambda k, r=place: (0.05 * r, "storage"))
    assert answer(RULE, job(*ranks)).state == "quiet"


def test_a_single_process_has_no_others() -> None:
    assert answer(RULE, job(starved())).state == "quiet"


def test_without_samples_it_is_likely_at_most() -> None:
    ranks = train_together(
        several(4, 4), 400, 0.05, lambda r, k: (0.05 if r == 2 else 0.002, "storage")
    )
    [finding] = answer(RULE, job(*ranks, waits=False)).findings
    assert finding.confidence == "likely"
