"""Work on very many rows part by part: what is made on the way is often larger than the result."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

_PART_ROWS = 500_000


def in_parts(rows: pl.DataFrame, make: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """What `make` makes of all `rows`, one part after the other and in their order; it must treat
    every row by itself."""
    if rows.height <= _PART_ROWS:
        return make(rows)
    return pl.concat([make(part) for part in rows.iter_slices(_PART_ROWS)], rechunk=True)
