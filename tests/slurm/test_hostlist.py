"""Slurm's short node lists, written out and back."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.hostlist import compress, expand


@pytest.mark.parametrize(
    ("short", "names"),
    [
        ("", ()),
        ("login1", ("login1",)),
        ("gpu[001-003,007],login1", ("gpu001", "gpu002", "gpu003", "gpu007", "login1")),
        ("n[9-11]", ("n9", "n10", "n11")),
        ("n[08-11]", ("n08", "n09", "n10", "n11")),
        ("r[1-2]n[1-2]", ("r1n1", "r1n2", "r2n1", "r2n2")),
        ("a[1-2]-ib", ("a1-ib", "a2-ib")),
        ("t[1-2],t1", ("t1", "t2", "t1")),
    ],
)
def test_expand(short: str, names: tuple[str, ...]) -> None:
    assert expand(short) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-2",
        "n]1[",
        "n[[1]]",
        "n[a-b]",
        "n[]",
        "n[3-1]",
        "n[1-99999999]",
        "a[1-900]b[1-900]c[1-900]",
        "../etc",
        "n 1",
        "n\n1",
        "x" * 300,
    ],
)
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        expand(text)


@pytest.mark.parametrize(
    "text", ["n[1-999999999]", "n" + "[1-65536]" * 300, "n[1-65536]," * 300, "n[1-256][1-256][1-2]"]
)
def test_a_short_text_for_too_many_nodes_takes_no_memory(text: str) -> None:
    tracemalloc.start()
    with pytest.raises(SlurmError, match="too long|more than"):
        expand(text)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 30e6, "300 full brackets took 1.4 GB"


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ((), ""),
        (("t1",), "t1"),
        (("t1", "t2", "t4"), "t[1-2,4]"),
        (("n08", "n09", "n10"), "n[08-10]"),
        (("t9", "t10"), "t9,t10"),
        (("login", "t1"), "login,t1"),
    ],
)
def test_compress(names: tuple[str, ...], short: str) -> None:
    assert compress(names) == short


NAME = st.from_regex(r"[a-z]{1,4}-?[0-9]{0,5}", fullmatch=True)


@given(st.lists(NAME, max_size=30))
def test_compress_and_expand_are_inverse(names: list[str]) -> None:
    assert expand(compress(names)) == tuple(names)


@given(st.text(alphabet="ab0129[],-.", max_size=30))
def test_any_text_expands_or_is_refused(text: str) -> None:
    try:
        names = expand(text)
    except SlurmError:
        return
    assert all(name and "[" not in name and "," not in name for name in names)
