"""Records behave as the standard library's dataclasses do, and start without them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io import records

NAMES = ("a", "b", "c", "d", "e")
Maker = Callable[..., Any]


class Shape(NamedTuple):
    """A class to be made twice. `defaults`: for each name none, a value or a factory."""

    defaults: tuple[tuple[str, Any], ...]
    frozen: bool
    slots: bool
    hidden: frozenset[str]

    def made(self, dataclass: Maker, field: Maker) -> type[Any]:
        space: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
        for name, (kind, value) in zip(NAMES, self.defaults, strict=False):
            space["__annotations__"][name] = "int"
            shown = name not in self.hidden
            if kind == "value":
                space[name] = field(default=value, repr=shown, compare=shown)
            elif kind == "factory":
                space[name] = field(default_factory=list, metadata={"unit": value})
            elif not shown:
                space[name] = field(repr=False, compare=False)
        made = type("Made", (), space)
        return dataclass(frozen=self.frozen, slots=self.slots)(made)  # type: ignore[no-any-return]

    def both(self) -> tuple[type[Any], type[Any]]:
        return (
            self.made(records.dataclass, records.field),
            self.made(dataclasses.dataclass, dataclasses.field),
        )


DEFAULTS = st.tuples(st.sampled_from(["none", "value", "factory"]), st.integers(0, 9))
# What has no default comes first, as the standard library wants it.
SHAPES = st.builds(
    Shape,
    st.lists(DEFAULTS, max_size=5).map(
        lambda many: tuple(sorted(many, key=lambda d: d[0] != "none"))
    ),
    st.booleans(),
    st.booleans(),
    st.frozensets(st.sampled_from(NAMES)),
)
VALUES = st.one_of(st.integers(0, 3), st.text(max_size=2), st.tuples(st.integers(0, 1)))
ARGUMENTS = st.tuples(
    st.lists(VALUES, max_size=6),
    st.dictionaries(st.sampled_from([*NAMES, "stranger"]), VALUES, max_size=6),
)


def outcome(act: Callable[..., Any], *given_: Any, **named: Any) -> Any:
    """What comes of a call: its value or the type of its error."""
    try:
        return act(*given_, **named)
    except (TypeError, AttributeError) as error:
        return type(error)


def contents(one: Any) -> Any:
    if isinstance(one, type):
        return one
    return {each.name: getattr(one, each.name) for each in dataclasses.fields(one)}


@given(SHAPES, ARGUMENTS)
def test_arguments_are_taken_as_by_the_standard_ones(shape: Shape, arguments: Any) -> None:
    ours, standard = (outcome(made, *arguments[0], **arguments[1]) for made in shape.both())
    assert contents(ours) == contents(standard)
    if not isinstance(standard, type):
        assert repr(ours) == repr(standard)


@given(SHAPES, ARGUMENTS, st.sampled_from(NAMES), VALUES)
def test_they_compare_and_hash_as_the_standard_ones(
    shape: Shape, arguments: Any, name: str, value: Any
) -> None:
    ours, standard = (outcome(made, *arguments[0], **arguments[1]) for made in shape.both())
    if isinstance(standard, type) or not hasattr(standard, name):
        return
    our_other, standard_other = (
        dataclasses.replace(one, **{name: value}) for one in (ours, standard)
    )
    assert (ours == our_other) == (standard == standard_other)
    assert ours != standard
    assert outcome(hash, our_other) == outcome(hash, standard_other)


@given(SHAPES, ARGUMENTS, st.dictionaries(st.sampled_from([*NAMES, "stranger"]), VALUES))
def test_both_modules_replace_and_tell_the_same(shape: Shape, arguments: Any, changes: Any) -> None:
    ours, standard = (outcome(made, *arguments[0], **arguments[1]) for made in shape.both())
    if isinstance(standard, type):
        return
    wanted = contents(outcome(dataclasses.replace, standard, **changes))
    module: Any
    for module in (records, dataclasses):
        assert contents(outcome(module.replace, ours, **changes)) == wanted
        assert module.asdict(ours) == dataclasses.asdict(standard)
        assert [(f.name, f.type, f.metadata) for f in module.fields(type(ours))] == [
            (f.name, f.type, dict(f.metadata)) for f in dataclasses.fields(standard)
        ]


@given(SHAPES, ARGUMENTS)
def test_only_frozen_ones_refuse_changes(shape: Shape, arguments: Any) -> None:
    ours, standard = (outcome(made, *arguments[0], **arguments[1]) for made in shape.both())
    if isinstance(standard, type) or not shape.defaults:
        return
    for act, more in ((setattr, (5,)), (delattr, ())):
        assert outcome(act, ours, "a", *more) == outcome(act, standard, "a", *more)
        assert getattr(ours, "a", "gone") == getattr(standard, "a", "gone")


@records.dataclass(frozen=True)
class Inner:
    size_bytes: int = 0


@records.dataclass(frozen=True, slots=True)
class Outer:
    """Has parts."""

    name: str
    inner: Inner = records.field(default_factory=Inner)
    many: tuple[Inner, ...] = ()
    by_name: dict[str, Inner] = records.field(default_factory=dict)


@records.dataclass(frozen=True)
class Longer(Inner):
    seconds: float = 1.0


OUTER = Outer("o", Inner(3), (Inner(1),), {"x": Inner(2)})


def test_records_inside_become_dictionaries_too() -> None:
    wanted = {
        "name": "o",
        "inner": {"size_bytes": 3},
        "many": ({"size_bytes": 1},),
        "by_name": {"x": {"size_bytes": 2}},
    }
    assert records.asdict(OUTER) == wanted == dataclasses.asdict(OUTER)


@pytest.mark.parametrize("one", [OUTER, Inner(7), Longer(2, 3.0)])
def test_copies_and_pickles_are_equal(one: Any) -> None:
    for other in (copy.copy(one), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        assert type(other) is type(one)


def test_what_is_inherited_comes_first() -> None:
    assert Longer(2, 3.0) == Longer(size_bytes=2, seconds=3.0)
    assert Longer() != Inner()


def test_defaults_can_be_read_from_the_class_and_slots_hold_nothing_else() -> None:
    assert Inner.size_bytes == 0
    with pytest.raises(AttributeError):
        object.__setattr__(OUTER, "stranger", 1)
    assert (Outer.__doc__, Outer.__qualname__, Outer.__module__) == (
        "Has parts.",
        "Outer",
        __name__,
    )


def test_a_pattern_can_take_them_apart() -> None:
    match OUTER:
        case Outer(name, Inner(size)):
            assert (name, size) == ("o", 3)
        case _:
            pytest.fail("the pattern did not match")


def test_neither_making_nor_using_one_loads_the_standard_module() -> None:
    program = """
import sys
from slurm_io.records import asdict, dataclass, field, fields, replace
@dataclass(frozen=True)
class One:
    a: int = 1
    b: list[int] = field(default_factory=list)
one = replace(One(2), b=[3])
assert asdict(one) == {"a": 2, "b": [3]} and [f.name for f in fields(one)] == ["a", "b"]
assert one == One(2, [3]) and repr(one) == "One(a=2, b=[3])"
print(*{"dataclasses", "inspect", "typing"} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sys.path!r}\n{program}"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == []
