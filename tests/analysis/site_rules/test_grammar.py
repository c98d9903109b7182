"""Expressions: what is taken, what is refused with one line, and that nothing is ever run."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.analysis.site_rules.grammar import parse
from slurm_io.analysis.site_rules.names import fields, series
from slurm_io.analysis.site_rules.tree import FUNCTIONS, ExpressionError

GOOD = [
    ("idle.data_storage", "no unit"),
    ("p99(fsclient.rtt_ms, op_class='read', mount='/scratch')", "ms"),
    ("share_of_time(node.psi_io_some_ns > 500_000_000)", "no unit"),
    ("share_of_time(block.r_await > 5 and block.r_s > 10, role='disk')", "no unit"),
    ("mean(cgroup.mem_anon_bytes / cgroup.mem_limit_bytes)", "no unit"),
    ("base_unit(p50(fsclient.rtt_ms)) / time.step_p50_s", "no unit"),
    ("mean(block.rkB_s, device='nvme0n1')", "kB/s"),
    ("max(gpu.temperature_c, gpu=0) - 20", "°C"),
    ("larger(idle.storage, idle.checkpoint) * 100", "no unit"),
    ("count(gpu.xid)", "no unit"),
    ("-time.steps / 1e3", "no unit"),
    ("3 / 4", "a bare number"),
    ("sum(node.net_rx_bytes) / time.training_s", "B/s"),
]


@pytest.mark.parametrize(("text", "unit"), GOOD, ids=[text for text, _ in GOOD])
def test_it_is_taken_and_has_a_unit(text: str, unit: str) -> None:
    assert str(parse(text).unit) == unit


BAD = [
    ("", "not an expression"),
    ("1 +", "not an expression"),
    ("idle.data_storag", "did you mean idle.data_storage?"),
    ("fsclient.rtt_s", "did you mean fsclient.rtt_ms?"),
    ("nothing_like_it_at_all_zzz", "there is no nothing_like_it_at_all_zzz"),
    ("fsclient.rtt_ms", "say which, e.g. mean(fsclient.rtt_ms)"),
    ("mean(idle.storage)", "takes a series"),
    ("mean(fsclient.rtt_ms, fsclient.queue_ms)", "takes one series"),
    ("avg(fsclient.rtt_ms)", "there is no function avg"),
    ("p90(fsclient.rtt_ms)", "did you mean p9"),
    ("mean(fsclient.rtt_ms, mnt='/scratch')", "did you mean mount?"),
    ("mean(fsclient.rtt_ms, mount=3)", "mount must be a text in quotes"),
    ("mean(gpu.power_w, gpu='0')", "gpu must be a whole number"),
    ("mean(fsclient.rtt_ms + block.r_s)", "do not belong together"),
    ("mean(fsclient.rtt_ms + fsclient.bytes)", "cannot be added"),
    ("time.wall_s + mean(fsclient.rtt_ms)", "base_unit(...) gives s"),
    ("mean(block.util) > idle.storage", "base_unit(...) gives a share"),
    ("mean(block.r_await * time.steps)", "only bare numbers stand beside a series"),
    ("idle.storage / 0", "divides by zero"),
    ("idle.storage > 0.1", "put the limit into threshold"),
    ("0.1 < idle.storage < 0.2", "one comparison at a time"),
    ("idle.storage in idle.checkpoint", "compare with"),
    ("idle.storage is idle.checkpoint", "compare with"),
    ("share_of_time(block.r_await)", "compare the series with something"),
    ("mean(block.r_await > 5)", "use share_of_time"),
    ("mean(block.stuck)", "use share_of_time"),
    ("(idle.storage > 0) + 1", "nothing can be reckoned with it"),
    ("base_unit(time.steps)", "cannot be converted"),
    ("base_unit(1, 2)", "takes 1 value"),
    ("larger(idle.storage)", "takes 2 values"),
    ("larger(idle.storage, time.wall_s)", "cannot be compared"),
    ("~time.steps", "only - and not"),
    ("True", "cannot be written here"),
    ("'text'", "cannot be written here"),
    ("1e400", "is no number"),
    ("1e19", "is no number"),
    ("1j", "cannot be written here"),
    ("time.steps ** 2", "cannot be written here"),
    ("time.steps % 2", "cannot be written here"),
    ("time.steps if 1 else 2", "cannot be written here"),
    ("lambda: 1", "cannot be written here"),
    ("[1][0]", "cannot be written here"),
    ("(x := 1)", "cannot be written here"),
    ("f'{1}'", "cannot be written here"),
    ("mean(*fsclient.rtt_ms)", "* cannot be written here"),
    ("mean(fsclient.rtt_ms, **{})", "cannot be chosen by None"),
    ("__import__('os').system('true')", "there is no function that"),
    ("time.__class__", "there is no time.__class__"),
    ("idle.storage.__class__.__bases__", "there is no"),
    ("(1).real", "is no name"),
    ("mean.__self__", "there is no mean.__self__"),
    ("time.steps\nand 1", "cannot be printed"),
    ("1<2" + " and 1<2" * 50, "more than 100 parts"),
    ("-" * 20 + "1", "nested deeper than"),
    ("(" * 240 + "1" + ")" * 240, "too many nested parentheses"),
    ("x" * 501, "longer than 500"),
]


@pytest.mark.parametrize(("text", "words"), BAD, ids=[text[:40] or "empty" for text, _ in BAD])
def test_it_is_refused_in_one_line_that_says_why(text: str, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_guard_must_be_true_or_false() -> None:
    assert parse("time.steps >= 200 and not idle.storage > 0.5", "truth").is_truth
    with pytest.raises(ExpressionError, match="compare it with something"):
        parse("time.steps", "truth")
    with pytest.raises(ExpressionError, match="compare it with something"):
        parse("time.steps and idle.storage > 1", "truth")


@given(st.text(max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        parse(text)
    except ExpressionError as error:
        assert "\n" not in str(error)


WORDS = [
    *fields(),
    *series(),
    *FUNCTIONS,
    *"+-*/()<>,=.",
    " and ",
    " not ",
    "1",
    "0",
    "'a'",
    "mount=",
]


@given(st.lists(st.sampled_from(WORDS), max_size=12))
def test_no_heap_of_its_own_words_breaks_it(words: list[str]) -> None:
    try:
        parse("".join(words))
    except ExpressionError:
        return


@given(st.text(alphabet=string.ascii_letters + "._()'=", max_size=40))
def test_nothing_that_looks_like_python_gets_through(text: str) -> None:
    try:
        node = parse(text)
    except ExpressionError:
        return
    assert node.kind in ("field", "aggregate", "share", "choice", "convert", "number")
