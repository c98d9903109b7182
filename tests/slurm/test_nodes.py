"""One node in every form that versions print it in."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.gres import Gpus, gpus_of_tres
from slurm_io.slurm.hostlist import natural_key
from slurm_io.slurm.infos import QUIET_FLAGS, NodeInfo
from slurm_io.slurm.job_records import jobs_from_json
from slurm_io.slurm.nodes import nodes_from_json, nodes_from_text, split_state
from slurm_io.slurm.sinfo import parse_sinfo_nodes
from slurm_io.slurm.version import parse_json

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"
RELEASES = ["24.11.5", "26.05.5"]


@pytest.mark.parametrize("release", RELEASES)
def test_text_and_json_of_one_cluster_say_the_same(release: str) -> None:
    text = nodes_from_text((FIXTURES / f"nodes-{release}.txt").read_text())
    answer = parse_json((FIXTURES / f"nodes-{release}-v0.0.42.json").read_text())
    json = nodes_from_json(answer)
    assert len(json) == 4
    # Which GPUs are in use is told as text only where there are some.
    assert [replace(node, gpus_used=None) for node in json] == list(text)
    drained = json[3]
    assert drained.reason is not None
    assert drained.reason.text == "bad disk x=y Comment=z"
    assert (drained.reason.user, drained.comment, drained.extra) == ("root", "c c", '{"a":1}')
    assert [node.reservation for node in json] == [None, "R", "R", None]


@pytest.mark.parametrize("release", ["22.05.8", *RELEASES])
def test_gpus_and_mig_slices_in_every_answer_of_a_real_cluster(release: str) -> None:
    """Two nodes with 2 whole GPUs and 7 slices each; a job has 1 and 3 of the first."""

    def recorded(kind: str) -> str:
        return (FIXTURES / f"gpus-{release}-{kind}").read_text()

    every, used = Gpus({"a100": 2}, {"1g.10gb": 7}), Gpus({"a100": 1}, {"1g.10gb": 3})
    answers = [nodes_from_text(recorded("nodes.txt"))]
    if release in RELEASES:
        answers.append(nodes_from_json(parse_json(recorded("nodes.json"))))
    for first, second in answers:
        assert (first.gpus, first.gpus_used) == (every, used)
        assert gpus_of_tres(dict(first.tres_allocated)) == used
        assert (second.gpus, second.gpus_used) == (every, Gpus())
        assert second.tres_allocated == ()
    first_row, second_row = parse_sinfo_nodes(recorded("sinfo.txt")).nodes
    assert (first_row.gpus, first_row.gpus_used) == (every, used)
    assert first_row.gpu_indices == (0, 2, 3, 4)
    assert (second_row.gpus_used.devices, second_row.state) == (0, "planned")
    running, waiting = jobs_from_json(parse_json(recorded("jobs.json")))
    assert (running.gpus, running.nodes) == (used, ("t1",))
    assert waiting.gpus == Gpus({"a100": 4})


def test_json_of_22_05_has_its_state_in_two_places() -> None:
    answer = {"nodes": [{"name": "t1", "state": "idle", "state_flags": ["DRAIN", "RESERVED"],
                         "partitions": ["main"], "features": "a,b", "gres": "gpu:a100:4(S:0-1)",
                         "reason": "x", "reason_changed_at": 0, "reason_set_by_user": None,
                         "boot_time": 1796023253, "tres_used": None}]}  # fmt: skip
    (node,) = nodes_from_json(answer)
    assert (node.base, node.flags, node.features) == ("IDLE", ("DRAIN", "RESERVED"), ("a", "b"))
    assert node.gpus.by_type == {"a100": 4} and node.boot_s == 1796023253
    assert node.reason is not None and (node.reason.user, node.reason.at_s) == (None, None)


LINE = ("NodeName=n1 Arch=x86_64 CPUAlloc=6 CPUTot=32 Gres=gpu:model_a:2(S:0,2),gpu:1g.10gb:7 "
        "OS=Linux 6.1 #1 SMP 21:54:43 UTC RealMemory=1000 State=MIXED+DRAIN Partitions=a,b "
        "BootTime=1796023253 ResumeAfterTime=None SuspendTime=INFINITE CfgTRES=cpu=32 "
        "AllocTRES=cpu=6,mem=12G")  # fmt: skip
TAIL = " Reason=a b=c [root@1796012002] Comment=x State=IDLE Extra={}"
PAIRS = ["Arch=x86_64", "CPUAlloc=6", "CPUTot=32", "Gres=gpu:model_a:2(S:0,2),gpu:1g.10gb:7",
         "OS=Linux 6.1 #1 SMP 21:54:43 UTC", "RealMemory=1000", "State=MIXED+DRAIN",
         "Partitions=a,b", "BootTime=1796023253", "ResumeAfterTime=None", "SuspendTime=INFINITE",
         "CfgTRES=cpu=32", "AllocTRES=cpu=6,mem=12G"]  # fmt: skip


@given(st.randoms(), st.sampled_from([" ", "  ", "\n   "]))
def test_the_order_of_keys_and_the_line_breaks_make_no_difference(
    chance: random.Random, between: str
) -> None:
    pairs = PAIRS + ["NewKeyOf2611=1-2", "MCS_label=N/A"]
    chance.shuffle(pairs)
    assert nodes_from_text(between.join(["NodeName=n1", *pairs]) + TAIL) == nodes_from_text(
        LINE + TAIL
    )


def test_a_node_s_texts_and_gpus() -> None:
    (node,) = nodes_from_text(LINE + TAIL)
    assert node.reason is not None and (node.reason.text, node.reason.at_s) == ("a b=c", 1796012002)
    assert (node.comment, node.extra) == ("x State=IDLE", "{}")
    assert (dict(node.gpus.whole), dict(node.gpus.mig)) == ({"model_a": 2}, {"1g.10gb": 7})
    assert node.suspend_time_s is None and node.resume_after_s is None
    assert nodes_from_text(LINE.replace("INFINITE", "300"))[0].suspend_time_s == 300


@pytest.mark.parametrize(
    ("words", "base", "flags"),
    [
        ("IDLE", "IDLE", ()),
        ("DRAIN+RESERVED+IDLE", "IDLE", ("DRAIN", "RESERVED")),
        ("idle+drain", "IDLE", ("DRAIN",)),
        ("IDLE*+DRAIN", "IDLE", ("NOT_RESPONDING", "DRAIN")),
        ("DOWN+NOT_RESPONDING", "DOWN", ("NOT_RESPONDING",)),
        ("IDLE~+CLOUD", "IDLE", ("POWERED_DOWN", "CLOUD")),
        ("MIXED-", "MIXED", ("PLANNED",)),
        ("DRAINED", "IDLE", ("DRAIN",)),
        ("SOMETHING_NEW", "UNKNOWN", ("SOMETHING_NEW",)),
    ],
)
def test_words_of_a_state(words: str, base: str, flags: tuple[str, ...]) -> None:
    assert split_state(words.split("+")) == (base, flags)


flag = st.sampled_from(["DRAIN", "MAINTENANCE", "COMPLETING", "PLANNED", "POWERED_DOWN", "BLOCKED",
                        "NOT_RESPONDING", "FAIL", "REBOOT_REQUESTED", "INVALID_REG", "NEW_WORD",
                        *QUIET_FLAGS])  # fmt: skip


@given(st.sampled_from(["IDLE", "MIXED", "ALLOCATED", "DOWN"]), st.lists(flag, unique=True))
def test_only_an_idle_node_without_any_other_word_is_offered(base: str, flags: list[str]) -> None:
    node = NodeInfo("n1", base, tuple(flags))
    assert node.is_idle == (base == "IDLE" and set(flags) <= QUIET_FLAGS)
    assert node.is_free == (node.is_idle and "RESERVED" not in flags)
    assert not replace(node, reservation="r").is_free


def test_thousands_of_nodes_in_natural_order() -> None:
    numbers = list(range(1, 5001))
    random.Random(1).shuffle(numbers)
    nodes = nodes_from_text("".join(f"NodeName=gpu{n} State=IDLE OS=x\n" for n in numbers))
    assert [node.name for node in nodes] == [f"gpu{n}" for n in range(1, 5001)]


@given(st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{0,3}[a-z-]{0,2}[0-9]{0,3}", fullmatch=True)))
def test_names_of_any_form_can_be_sorted(names: list[str]) -> None:
    assert sorted(sorted(names, key=natural_key)) == sorted(names)


@pytest.mark.parametrize(
    "text",
    ["nonsense\n", "NodeName=a\n", "NodeName=ALL State=IDLE\n", "NodeName=a,b State=IDLE\n",
     "NodeName=a State=IDLE\nNodeName=a State=DOWN\n", "NodeName=a State=IDLE Gres=gpu::\n",
     "NodeName=a State=IDLE Gres=gpu:4(S:0\n", "NodeName=a State=I/O\n",
     "NodeName=a State=IDLE CPUTot=many\n", "NodeName=a[1-2] State=IDLE\n"],
)  # fmt: skip
def test_a_damaged_answer_names_no_node(text: str) -> None:
    with pytest.raises(SlurmError):
        nodes_from_text(text)


def test_a_reason_of_several_lines_is_whole() -> None:
    (node,) = nodes_from_text(
        "NodeName=a State=IDLE+DRAIN Reason=first [root@1796012002]\n   second line\n"
    )
    assert node.reason is not None and node.reason.text == "first second line"
