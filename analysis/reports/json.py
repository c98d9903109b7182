"""The report as JSON: the object itself, the form other programs read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.reports.base import FORMATS


@FORMATS.register("json")
def render(report: Mapping[str, Any]) -> str:
    """Indented JSON with a final newline; NaN never occurs (unknown is null)."""
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
