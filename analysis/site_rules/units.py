"""Units of an expression: what may be added or compared, and what a product is.

A unit is a product of powers of names (``kB/s`` is kB¹ s⁻¹). Nothing is converted silently:
milliseconds and seconds are as different here as bytes and metres. A bare number goes with any
unit (:data:`ANY`); a share and a count have none (:data:`NONE`).
"""

from __future__ import annotations

from dataclasses import dataclass

_NO_UNIT = ("", "share", "1")
_CONVERTED: dict[str, tuple[str, float]] = {
    "ns": ("s", 1e-9), "us": ("s", 1e-6), "ms": ("s", 1e-3), "s": ("s", 1.0),
    "B": ("B", 1.0), "kB": ("B", 1024.0), "kiB": ("B", 1024.0), "MiB": ("B", 2.0**20),
    "MB": ("B", 1e6), "%": ("", 0.01),
}  # fmt: skip


@dataclass(frozen=True)
class Unit:
    """`powers`: (name, exponent), sorted, none of them 0. `is_any`: a bare number's."""

    powers: tuple[tuple[str, int], ...] = ()
    is_any: bool = False

    def times(self, other: Unit) -> Unit:
        """Of a product."""
        powers = dict(self.powers)
        for name, power in other.powers:
            powers[name] = powers.get(name, 0) + power
        return _unit(powers, self.is_any and other.is_any)

    def over(self, other: Unit) -> Unit:
        """Of a quotient."""
        turned = tuple((name, -power) for name, power in other.powers)
        return self.times(Unit(turned, other.is_any))

    def fits(self, other: Unit) -> bool:
        """Whether the two may be added or compared."""
        return self.is_any or other.is_any or self.powers == other.powers

    def or_any(self, other: Unit) -> Unit:
        """Of a sum: that of the side which has one."""
        return other if self.is_any else self

    def __str__(self) -> str:
        above = [_power(name, power) for name, power in self.powers if power > 0]
        below = [_power(name, -power) for name, power in self.powers if power < 0]
        if not above and not below:
            return "a bare number" if self.is_any else "no unit"
        return "·".join(above or ["1"]) + "".join(f"/{one}" for one in below)


ANY = Unit((), True)
NONE = Unit()


def unit_of(text: str) -> Unit:
    """``kB/s`` as written in the schema or in a rule."""
    above, _, below = text.partition("/")
    powers = {} if above in _NO_UNIT else {above: 1}
    if below:
        powers[below] = powers.get(below, 0) - 1
    return _unit(powers, False)


def converted(unit: Unit) -> tuple[Unit, float] | None:
    """(`unit` in s, B or as a share, factor to get there); None where nothing can be converted.

    kB is 1024 B, as in iostat; MB is 10^6 B.
    """
    powers: dict[str, int] = {}
    factor = 1.0
    changed = False
    for name, power in unit.powers:
        base, each = _CONVERTED.get(name, (name, 1.0))
        changed = changed or name in _CONVERTED
        factor *= each**power
        if base:
            powers[base] = powers.get(base, 0) + power
    return (_unit(powers, False), factor) if changed else None


def _unit(powers: dict[str, int], is_any: bool) -> Unit:
    kept = tuple(sorted((name, power) for name, power in powers.items() if power))
    return Unit(kept, is_any and not kept)


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"
