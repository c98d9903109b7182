"""Whether ``[check.NAME]`` of the site's file names checks there are, with keys that these have.

The prolog does not ask: there a check with a bad key answers UNKNOWN and says why. `slurm-io check`
and `slurm-io install` do, so that the admin learns of a typo and not the next job.
"""

from __future__ import annotations

import sys
from difflib import get_close_matches
from typing import Any

from slurm_io.config import Config, read_section
from slurm_io.errors import ConfigError
from slurm_io.prolog.checks.base import CHECKS, Check


def settings_class(check: Check) -> type[Any]:
    """The dataclass of a check's own keys: ``Settings`` in its module."""
    kind: type[Any] = vars(sys.modules[check.function.__module__])["Settings"]
    return kind


def prove_own_settings(config: Config, name: str) -> None:
    """Read every check's own keys; `name` heads the errors. Raises ConfigError."""
    checks = CHECKS.discover()
    for check, section in config.check.items():
        if check not in checks:
            near = get_close_matches(check, checks, 1)
            hint = f"did you mean {near[0]!a}?" if near else f"there are: {', '.join(checks)}"
            raise ConfigError(f"{name}: [check.{check}]: there is no such check; {hint}")
        if section.common.policy == "drain" and checks[check].identity != "root":
            raise ConfigError(
                f"{name}: check.{check}.policy: a check about users' data drains no node: say stop"
            )
        read_section(settings_class(checks[check]), section.own, name, f"check.{check}")
