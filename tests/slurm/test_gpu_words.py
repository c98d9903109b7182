"""What Slurm and CUDA write of a job's GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.gpu_words import ALL, gpus_of_user, parse_words

UUID = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
MIG = "MIG-a13d1f5b-9b4c-5b8f-8f3a-3a6a0c1f0d11"
OLD_MIG = "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/7/0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0", ("0",)),
        ("0,2-4", ("0", "2", "3", "4")),
        ("3,1,3", ("3", "1")),
        (UUID, (UUID,)),
        (f"{UUID},{MIG}", (UUID, MIG)),
        ("GPU-8932", ("GPU-8932",)),
        (OLD_MIG, (OLD_MIG,)),
        ("", ()),
        ("-1", ()),
        ("NoDevFiles", ()),
        ("none", ()),
    ],
)
def test_forms(text: str, words: tuple[str, ...]) -> None:
    assert parse_words(text) == words


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "0;1",
        "4-2",
        "0-99999",
        "0-9999,0-9999",
        "GPU-",
        "GPU-x",
        "GPU-zz11",
        "1,-1",
        "٣",
        "0-1500",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        parse_words(text)


@given(st.text(max_size=200))
def test_no_text_makes_anything_but_words_or_a_refusal(text: str) -> None:
    try:
        words = parse_words(text)
    except SlurmError:
        return
    assert len(words) <= 1024 + 1024
    assert all(word.isdecimal() or word.startswith(("GPU-", "MIG-")) for word in words)


def test_a_step_is_nearer_than_its_job_and_both_than_cuda() -> None:
    environment = {"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "0"}
    assert gpus_of_user(environment) == "SLURM_JOB_GPUS=0,1"
    assert gpus_of_user(environment | {"SLURM_STEP_GPUS": "1"}) == "SLURM_STEP_GPUS=1"
    assert gpus_of_user({"CUDA_VISIBLE_DEVICES": UUID}) == f"CUDA_VISIBLE_DEVICES={UUID}"
    assert gpus_of_user({"ROCR_VISIBLE_DEVICES": "1"}) == "ROCR_VISIBLE_DEVICES=1"


def test_without_a_word_or_with_mig_it_is_all_that_can_be_seen() -> None:
    assert gpus_of_user({}) == ALL
    assert gpus_of_user({"CUDA_VISIBLE_DEVICES": "$GPUS"}) == ALL
    # One task of many: the others have other instances.
    assert gpus_of_user({"SLURM_JOB_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": MIG}) == ALL


def test_gpus_hidden_on_purpose_are_none() -> None:
    assert gpus_of_user({"CUDA_VISIBLE_DEVICES": ""}) == "CUDA_VISIBLE_DEVICES="
