"""One object of Slurm's JSON, its fields read in whatever shape the schema gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.records import dataclass
from slurm_io.slurm.words import epoch_in, name_of, names_in, number_in, text_in


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Fields of `found`, which errors call `what`. Each method raises SlurmError."""

    found: Mapping[str, Any]
    what: str

    def text(self, key: str) -> str:
        """A text; "" when unset."""
        return text_in(self.found.get(key), f"{self.what}: {key}")

    def name(self, key: str) -> str | None:
        """A name; None when unset."""
        return name_of(self.text(key))

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names, or a text with commas."""
        return names_in(self.found.get(key), f"{self.what}: {key}")

    def count(self, key: str) -> int | None:
        """A number; None when unset or infinite."""
        return number_in(self.found.get(key), f"{self.what}: {key}")

    def epoch(self, key: str) -> int | None:
        """A time in epoch seconds; None when there is none."""
        return epoch_in(self.found.get(key), f"{self.what}: {key}")

    def yes_no(self, key: str) -> bool | None:
        """True or false; None for anything else."""
        value = self.found.get(key)
        return value if isinstance(value, bool) else None
