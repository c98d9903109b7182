"""What a line form is, and the registry that finds them.

A form knows the lines of one training program. It sees one log, from some point on; an object is
made for each log, so it may remember what earlier lines said. It is offered a line only when one of
its `markers` is in it (or while it `is_open`), must not raise, and must answer in time linear in
the length of the line: the line may come from someone who wishes us ill.
"""

from __future__ import annotations

from collections.abc import Iterable

from slurm_io.joblog.model import Bar, Line, Reading
from slurm_io.registry import Registry


class Form:
    """Answers nothing; forms overrule what they know.

    Attributes:
        name: the module's name, and ``source`` in the table.
        markers: texts of which each line of this form holds at least one.
        has_stamps: whether the step time may be told from the time stamps of two lines, where the
            lines themselves give none.
        all_ranks: whether every rank prints each step.
    """

    name = ""
    markers: tuple[bytes, ...] = ()
    has_stamps = True
    all_ranks = False

    @property
    def is_open(self) -> bool:
        """Whether a block was begun and the coming lines are wanted, whatever they hold."""
        return False

    def read(self, line: Line) -> Iterable[Reading]:
        """Readings of one line, none for most."""
        return ()

    def bar(self, bar: Bar) -> Reading | None:
        """The reading of a progress bar, if this program's bars look so."""
        return None

    def settle(self) -> Iterable[Reading]:
        """Readings that waited for further lines, which did not come."""
        return ()


FORMS: Registry[type[Form]] = Registry("line form", "slurm_io.joblog.forms")


def known(**values: object) -> dict[str, object]:
    """The values that are not None: in `detail` an absent key stands for an unknown value."""
    return {name: value for name, value in values.items() if value is not None}


def with_nan(detail: dict[str, object], nan: list[str]) -> dict[str, object]:
    """`detail`, and under ``nan`` the names of the fields that were no finite number."""
    return {**detail, "nan": sorted(nan)} if nan else detail
