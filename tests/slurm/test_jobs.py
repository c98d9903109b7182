"""Which job a word means, from what squeue prints."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError, SlurmIoError, UsageError
from slurm_io.slurm.jobs import choose, find_job, parse_jobs

# Printed by squeue 22.05.8: an array, a job on two nodes, a heterogeneous job, one that waits.
SQUEUE = """\
5|5|PENDING|5|Resources||main|(null)|N/A
1_0|6|RUNNING|5|None|t1|main|(null)|N/A
1_1|7|RUNNING|5|None|t1|main|(null)|N/A
1_3|1|RUNNING|5|None|t1|main|(null)|N/A
2|2|RUNNING|5|None|t[2-3]|main|physics|gres:gpu:a100:4
3+0|3|RUNNING|5|None|t2|main|(null)|N/A
3+1|4|RUNNING|5|None|t3|main|(null)|N/A
8_[4-9%2]|8|PENDING|5|JobArrayTaskLimit||main|(null)|N/A
"""


def jobs(*names: str) -> str:
    return "".join(line for line in SQUEUE.splitlines(keepends=True) if line.split("|")[0] in names)


def test_fields_are_read() -> None:
    job = choose("2", parse_jobs(jobs("2")))
    assert (job.job_id, job.state, job.uid, job.nodes) == ("2", "RUNNING", 5, ("t2", "t3"))
    assert (job.partition, job.account, job.gpus_per_node) == ("main", "physics", 4)
    assert (job.array, job.het, job.reason) == (None, None, "")


def test_an_array_task_is_meant_by_its_own_form_and_by_its_own_number() -> None:
    array = parse_jobs(jobs("1_0", "1_1", "1_3"))
    assert choose("1_1", array).job_id == "7"
    assert choose("1_3", array).array == ("1", 3)
    assert choose("6", parse_jobs(jobs("1_0"))).name == "1_0"


def test_a_component_is_meant_by_its_own_form() -> None:
    job = choose("3+1", parse_jobs(jobs("3+0", "3+1")))
    assert (job.job_id, job.het, job.nodes) == ("4", ("3", 1), ("t3",))


@pytest.mark.parametrize(
    ("given_", "names", "told"),
    [
        ("1", ("1_0", "1_1", "1_3"), "several array tasks: name one (1_0, 1_1, 1_3)"),
        ("3", ("3+0", "3+1"), "several components: name one (3+0, 3+1)"),
    ],
)
def test_a_number_that_several_share_is_asked_back(
    given_: str, names: tuple[str, ...], told: str
) -> None:
    with pytest.raises(UsageError) as error:
        choose(given_, parse_jobs(jobs(*names)))
    assert told in str(error.value)


def test_an_unknown_job_and_a_failing_squeue_are_told_apart() -> None:
    with pytest.raises(SlurmError, match="Slurm knows no job 99"):
        choose("99", (), "slurm_load_jobs error: Invalid job id specified\n")
    with pytest.raises(SlurmError, match="Unable to contact slurm controller"):
        choose("99", (), "slurm_load_jobs error: Unable to contact slurm controller\n")
    with pytest.raises(SlurmError, match="knows no job 8_5"):  # among those that have not started
        choose("8_5", parse_jobs(jobs("8_[4-9%2]")))


@pytest.mark.parametrize(
    "word", ["", "x", "12_", "12 13", "12_3_4", "-1", "１２", "12\n", "9" * 11]
)
def test_what_is_no_job_id_is_a_usage_error(word: str) -> None:
    with pytest.raises(UsageError, match="is no job id"):
        find_job(word)


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    for job in parse_jobs(text):
        assert job.job_id.isdigit()


@given(st.integers(0, len(SQUEUE) - 1), st.characters(codec="utf-8"))
def test_a_damaged_answer_gives_a_job_that_was_there_or_a_named_error(
    place: int, char: str
) -> None:
    damaged = SQUEUE[:place] + char + SQUEUE[place + 1 :]
    with contextlib.suppress(SlurmIoError):
        assert choose("2", parse_jobs(damaged)).name == "2"
