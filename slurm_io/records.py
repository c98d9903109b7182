"""Dataclasses for what must start fast: the notation of the standard library, not its price.

The standard decorator writes, compiles and runs the methods of each class anew in each process
(about 0.4 ms a class), and importing it loads inspect, ast, dis and tokenize (7 ms): together a
quarter of all CPU that a prolog used. Here all classes share one set of methods. Objects take 1 to
3 µs to make, up to twice the time of standard ones. Written as ever::

    from slurm_io.records import dataclass, field

Type checkers see the standard decorator. The standard ``fields``, ``replace``, ``asdict`` and
``is_dataclass`` work on these classes too, for those who can afford to import them. Only what this
project writes is there: compared by value, frozen or not, slots or not; no order, no keyword-only,
no InitVar, no ClassVar, no ``__post_init__``, and no ``super()`` without arguments beside slots.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own costs 4 ms
if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import asdict, dataclass, field, fields, replace
    from typing import Any

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]
_FIELDS = "__record_fields__"
_STANDARD_FIELDS = "__dataclass_fields__"
_DEFAULTS = "__record_defaults__"
_SETTERS = "__record_setters__"


class _Missing:
    """Stands for "no default"."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


class Field:
    """One attribute, as the standard ``field`` describes it."""

    __slots__ = ("compare", "default", "default_factory", "metadata", "name", "repr", "type")

    def __init__(
        self,
        *,
        default: Any = MISSING,
        default_factory: Any = MISSING,
        repr: bool = True,  # noqa: A002 - its name in the standard library
        compare: bool = True,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = ""
        self.type = ""
        self.default = default
        self.default_factory = default_factory
        self.repr = repr
        self.compare = compare
        self.metadata = metadata or {}


def _dataclass(cls: Any = None, *, frozen: bool = False, slots: bool = False) -> Any:
    """As the standard decorator, with or without brackets."""
    if cls is not None:
        return _with_dict(cls, frozen=False)
    make = _with_slots if slots else _with_dict
    return lambda each: make(each, frozen)


def _fields(record: Any) -> tuple[Field, ...]:
    """Of a class or an object, in the order they are written."""
    return tuple(getattr(record, _FIELDS).values())


def _replace(record: Any, /, **changes: Any) -> Any:
    """A copy with some values changed."""
    return type(record)(**{**_named(record), **changes})


def _asdict(record: Any) -> dict[str, Any]:
    """Name -> value, of the records within too. What is neither record nor container is shared."""
    return {name: _plain(value) for name, value in _named(record).items()}


def _named(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in getattr(record, _FIELDS)}


def _plain(value: Any) -> Any:
    if hasattr(type(value), _FIELDS):
        return _asdict(value)
    if isinstance(value, list | tuple):
        kind = type(value)
        return kind(*map(_plain, value)) if hasattr(kind, "_fields") else kind(map(_plain, value))
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    return value


def _with_dict(cls: type[Any], frozen: bool) -> type[Any]:
    known = _known_of(cls)
    for name, one in known.items():
        if one.default is not MISSING:
            setattr(cls, name, one.default)
        elif name in cls.__dict__:
            delattr(cls, name)
    return _finished(cls, known, _METHODS | (_FROZEN if frozen else {}))


def _with_slots(cls: type[Any], frozen: bool) -> type[Any]:
    known = _known_of(cls)
    dropped = {*known, "__dict__", "__weakref__"}
    space = {name: value for name, value in cls.__dict__.items() if name not in dropped}
    made = type(cls.__name__, cls.__bases__, {**space, "__slots__": tuple(known)})
    made.__qualname__ = cls.__qualname__
    setattr(made, _SETTERS, [(name, getattr(made, name).__set__) for name in known])
    return _finished(made, known, _METHODS | _SLOT_METHODS | (_FROZEN if frozen else {}))


def _known_of(cls: type[Any]) -> dict[str, Field]:
    known: dict[str, Field] = dict(getattr(cls, _FIELDS, {}))
    for name, kind in cls.__annotations__.items():
        given = cls.__dict__.get(name, MISSING)
        known[name] = one = given if isinstance(given, Field) else Field(default=given)
        one.name, one.type = name, kind
    return known


def _finished(cls: type[Any], known: dict[str, Field], methods: Mapping[str, Any]) -> type[Any]:
    defaults = {name: one.default for name, one in known.items() if one.default is not MISSING}
    extras = {
        _FIELDS: known,
        _DEFAULTS: defaults,
        _STANDARD_FIELDS: _StandardFields(),
        "__match_args__": tuple(known),
    }
    for name, value in extras.items():
        setattr(cls, name, value)
    for name, method in methods.items():
        # A class that compares its own way has had its hash taken away by Python.
        if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
            setattr(cls, name, method)
    return cls


def _init(self: Any, *given: Any, **named: Any) -> None:
    _take(self, self.__dict__, given, named)


def _init_slots(self: Any, *given: Any, **named: Any) -> None:
    values: dict[str, Any] = {}
    _take(self, values, given, named)
    for name, put in getattr(self, _SETTERS):
        put(self, values[name])


def _take(
    record: Any, values: dict[str, Any], given: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """Fill `values` from the defaults and the arguments. Raises TypeError for an argument too few,
    too many, unknown or given twice."""
    known = getattr(record, _FIELDS)
    values.update(getattr(record, _DEFAULTS))
    if given:
        twice = named and not named.keys().isdisjoint(tuple(known)[: len(given)])
        if twice or len(given) > len(known):
            raise TypeError(f"{type(record).__name__}() got an argument twice or one too many")
        values.update(zip(known, given, strict=False))
    values.update(named)
    if values.keys() != known.keys():
        _make_up(type(record).__name__, values, known)


def _make_up(kind: str, values: dict[str, Any], known: Mapping[str, Field]) -> None:
    for name, one in known.items():
        if name not in values:
            if one.default_factory is MISSING:
                raise TypeError(f"{kind}() lacks the argument {name!r}")
            values[name] = one.default_factory()
    if len(values) != len(known):
        raise TypeError(f"{kind}() has no argument {', '.join(values.keys() - known.keys())}")


def _values(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in getattr(self, _FIELDS)])


def _compared(self: Any) -> tuple[Any, ...]:
    known = getattr(self, _FIELDS)
    return tuple([getattr(self, name) for name, one in known.items() if one.compare])


def _eq(self: Any, other: Any) -> Any:
    return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _repr(self: Any) -> str:
    known = getattr(self, _FIELDS)
    shown = (f"{name}={getattr(self, name)!r}" for name, one in known.items() if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _reduce(self: Any) -> Any:
    """For copy and pickle, which would set slots one by one."""
    return type(self), _values(self)


def _setattr(_self: Any, name: str, _value: Any) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field {name!r}")


_METHODS = {"__init__": _init, "__eq__": _eq, "__hash__": None, "__repr__": _repr}
_SLOT_METHODS = {"__init__": _init_slots, "__reduce__": _reduce}
_FROZEN = {"__hash__": _hash, "__setattr__": _setattr, "__delattr__": _delattr}


class _StandardFields:
    """``__dataclass_fields__``, by which the standard module knows its own: made when it asks."""

    def __get__(self, _instance: Any, owner: type[Any]) -> Any:
        import dataclasses

        made = dataclasses.make_dataclass(
            owner.__name__,
            [(one.name, one.type, _standard_field(one)) for one in _fields(owner)],
        )
        standard = getattr(made, _STANDARD_FIELDS)
        setattr(owner, _STANDARD_FIELDS, standard)
        return standard


def _standard_field(one: Field) -> Any:
    import dataclasses

    kinds = {"default": one.default, "default_factory": one.default_factory}
    given = {kind: value for kind, value in kinds.items() if value is not MISSING}
    return dataclasses.field(repr=one.repr, compare=one.compare, metadata=one.metadata, **given)


if not TYPE_CHECKING:
    asdict, dataclass, field, fields, replace = _asdict, _dataclass, Field, _fields, _replace
