"""What a job may ask for: one strict grammar, and nothing a user writes gets past it unchecked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SpecError
from slurm_io.spec import JobSpec, merge, parse_request, parse_words, spec_from_pairs


def test_every_key_once() -> None:
    spec = parse_request(
        "slurm-io: dataset=imagenet@sha256:0a1b ckpt=/scratch/my%20runs tier=local profile=full "
        "price=2.50 silence=F03,F10 check=hold"
    )
    assert spec == JobSpec(
        dataset="imagenet@sha256:0a1b",
        ckpt="/scratch/my runs",
        tier="local",
        profile="full",
        price_usd_h=2.5,
        silence=("F03", "F10"),
        check="hold",
    )


@pytest.mark.parametrize("text", ["", "my note", "xslurm-io: tier=local", "slurm-io tier=local"])
def test_a_comment_without_the_marker_asks_for_nothing(text: str) -> None:
    assert parse_request(text) is None


def test_text_before_the_marker_is_somebody_elses() -> None:
    assert parse_request("wandb=7 slurm-io: tier=local") == JobSpec(tier="local")


def test_an_empty_request_is_a_request() -> None:
    assert parse_request("slurm-io:") == JobSpec()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("profle=off", "unknown key 'profle'; known: dataset, ckpt"),
        ("tier", "'tier' is not of the form key=value"),
        ("tier=ssd", "tier must be local or shared, not 'ssd'"),
        ("tier=local tier=local", "'tier' is given twice"),
        ("price=-1", "price must be dollars per GPU hour"),
        ("price=nan", "price must be dollars per GPU hour"),
        ("price=1e3", "price must be dollars per GPU hour"),
        ("price=٣", "price must be dollars per GPU hour"),
        ("silence=F3", "silence must be rule codes"),
        ("silence=", "silence must be rule codes"),
        ("ckpt=relative", "ckpt must be an absolute path"),
        ("ckpt=/a/../../etc/shadow", "ckpt must be an absolute path"),
        ("ckpt=/a%2f..%2fb", "ckpt must be an absolute path"),
        ("dataset=/data/x", "this site accepts no paths"),
        ("dataset=a;reboot", "dataset must be NAME"),
        ("ckpt=/a%0aexport", "printable"),
        ("ckpt=/a%00b", "printable"),
        ("ckpt=/a%1b[2J", "printable"),
        ("ckpt=/a%e2%80%ae", "printable"),
        ("ckpt=/a%", "a bare % must be written %25"),
        ("ckpt=/a%zz", "a bare % must be written %25"),
        ("ckpt=/%ff", "not UTF-8"),
        ("ckpt=/" + "x" * 2000, "at most 1024"),
        ("x" * 3000, "longer than 2048"),
        ("tier=local\nexport=1", "tier must be at most 1024 printable"),
    ],
)
def test_a_malformed_request_is_told_in_one_safe_line(words: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_words(words)
    text = str(caught.value)
    assert message in text
    assert text.isprintable()
    assert text.isascii()
    assert len(text) < 200


def test_a_megabyte_is_refused_by_its_length_alone() -> None:
    with pytest.raises(SpecError, match="longer than 2048"):
        parse_request("slurm-io: " + "tier=local " * 100_000)


def test_a_path_as_dataset_where_the_site_allows_it() -> None:
    assert parse_words("dataset=/data/x", allow_paths=True).dataset == "/data/x"
    with pytest.raises(SpecError):
        parse_words("dataset=/data/../x", allow_paths=True)


def test_the_later_source_wins_key_by_key() -> None:
    layers = [
        JobSpec(tier="local", check="warn"),
        JobSpec(check="off", silence=("F01",)),
        JobSpec(),
        JobSpec(silence=()),
    ]
    assert merge(layers) == JobSpec(tier="local", check="off", silence=())


@given(st.text(st.characters(), max_size=200))
def test_any_text_is_accepted_or_refused_with_a_spec_error(text: str) -> None:
    try:
        spec = parse_words(text, allow_paths=True)
    except SpecError as error:
        assert str(error).isprintable()
    else:
        assert all(value.isprintable() for value in flat(spec))


KEYS = st.sampled_from(["dataset", "ckpt", "tier", "profile", "price", "silence", "check", "x"])
ESCAPES = st.integers(0, 255).map(lambda byte: f"%{byte:02x}")
VALUES = st.lists(st.text(max_size=3) | ESCAPES | st.sampled_from(["/", "..", "%2f", "local"]))


@given(st.lists(st.tuples(KEYS, VALUES), max_size=4))
def test_no_control_character_and_no_dotdot_gets_through(
    pairs: list[tuple[str, list[str]]],
) -> None:
    text = "slurm-io: " + " ".join(f"{key}={''.join(value)}" for key, value in pairs)
    try:
        spec = parse_request(text, allow_paths=True)
    except SpecError as error:
        assert str(error).isprintable()
        return
    assert spec is not None
    for value in flat(spec):
        assert value.isprintable()
        assert ".." not in value.split("/")


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=4))
def test_pairs_from_a_configuration_file_are_held_to_the_same_form(pairs: dict[str, str]) -> None:
    try:
        spec_from_pairs(pairs)
    except SpecError as error:
        assert str(error).isprintable()


def flat(spec: JobSpec) -> list[str]:
    """Every text in a spec."""
    values: list[str] = []
    for value in spec.to_dict().values():
        values.extend(value if isinstance(value, tuple) else [str(value)])
    return values
