"""Report formats: each turns the one report object into text. One file each, self-registering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slurm_io.registry import Registry

Format = Callable[[Mapping[str, Any]], str]

FORMATS: Registry[Format] = Registry("report format", "slurm_io.analysis.reports")
