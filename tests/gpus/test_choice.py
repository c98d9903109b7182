"""Which of a node's GPUs the words of Slurm and CUDA mean."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.gpus.choice import choose, choose_for, is_meant, names_instances
from slurm_io.gpus.model import Files, Identity, Wish


def gpu(number: int, minor: int | None = None, vendor: str = "nvidia") -> Identity:
    return Identity(
        gpu=number,
        uuid=f"GPU-{number}0aa1111-2222",
        minor=number if minor is None else minor,
        bus=f"0000:{number:02x}:00.0",
        name="",
        vendor=vendor,
    )


FOUR = [gpu(number) for number in range(4)]
CROSSED = [gpu(0, 2), gpu(1, 3), gpu(2, 0), gpu(3, 1)]


def test_numbers_where_order_and_device_files_agree() -> None:
    chosen = choose(("1", "3"), FOUR)
    assert (chosen.places, chosen.doubt, chosen.by_number) == ((1, 3), "", True)


def test_where_they_differ_both_are_taken_and_it_is_said() -> None:
    chosen = choose(("0", "1"), CROSSED)
    assert chosen.places == (0, 1, 2, 3)
    assert "both are recorded" in chosen.doubt


def test_all_numbers_are_all_gpus_whatever_they_count() -> None:
    assert choose(("0", "1", "2", "3"), CROSSED)[:3] == ((0, 1, 2, 3), (), "")


def test_a_control_group_that_shows_only_the_jobs_gpus_numbers_them_anew() -> None:
    visible = [gpu(0, 4), gpu(1, 5)]
    assert choose(("4", "5"), visible).places == (0, 1)
    assert choose(("1", "2"), visible).places == (0, 1)


def test_render_nodes_are_numbers_too() -> None:
    cards = [gpu(0, 128, "amd"), gpu(1, 129, "amd"), gpu(2, 130, "amd")]
    assert choose(("129",), cards).places == (1,)
    assert choose(("1",), cards).places == (1,)


def test_uuids_in_full_abbreviated_and_in_any_case() -> None:
    assert choose((FOUR[2].uuid or "",), FOUR).places == (2,)
    assert choose(("gpu-30aa".upper(), "GPU-10AA"), FOUR).places == (1, 3)
    assert choose(("GPU-ffff",), FOUR).places == ()


def test_an_instance_of_old_names_its_gpu() -> None:
    chosen = choose((f"MIG-{FOUR[1].uuid}/7/0",), FOUR)
    assert chosen.places == (1,)
    assert chosen.instances == (f"MIG-{FOUR[1].uuid}/7/0",)
    assert not names_instances(chosen.instances)


def test_an_instance_of_today_does_not() -> None:
    chosen = choose(("MIG-a13d1f5b",), FOUR)
    assert (chosen.places, chosen.instances) == ((), ("MIG-a13d1f5b",))
    assert names_instances(chosen.instances)


@pytest.mark.parametrize(
    ("names", "is_so"),
    [
        ((), True),
        (("MIG-aaaa-1",), True),
        (("MIG-AAAA",), True),
        (("MIG-bbbb",), False),
        (("MIG-GPU-10aa1111-2222/5/0",), True),
        (("MIG-GPU-10aa1111-2222/5/1",), False),
    ],
)
def test_which_instances_are_meant(names: Sequence[str], is_so: bool) -> None:
    instance = gpu(1)._replace(uuid="MIG-aaaa-1", mig="5/0", parent_uuid=gpu(1).uuid)
    assert is_meant(instance, names) is is_so


def test_device_files_choose_by_vendor() -> None:
    wish = Wish("open", files=Files(frozenset({2}), frozenset({128})))
    assert choose_for(wish, FOUR).places == (2,)
    assert choose_for(wish, [gpu(0, 128, "amd"), gpu(1, 2, "amd")]).places == (0,)


def test_nothing_known_is_everything() -> None:
    assert choose_for(Wish("all", is_known=False), FOUR).places == (0, 1, 2, 3)
    assert choose_for(Wish("none", words=()), FOUR).places == ()


@given(
    st.lists(st.sampled_from(["0", "1", "2", "3", "7", "GPU-", "MIG-1", "MIG-GPU-1/1/1"])),
    st.permutations(range(4)),
)
def test_places_are_always_some_of_those_there_are(words: list[str], minors: list[int]) -> None:
    seen = [gpu(number, minor) for number, minor in enumerate(minors)]
    places = choose(words, seen).places
    assert set(places) <= set(range(4)) and list(places) == sorted(set(places))
