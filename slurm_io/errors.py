"""One tree of errors; each knows the exit code the command line ends with.

The text of an error is one line that says what happened and what to do about it. `commands`
prints it as it stands; a traceback is shown only under ``--debug``.
"""

from __future__ import annotations


class SlurmIoError(Exception):
    """Base of every error this project raises on purpose."""

    exit_code = 3


class UsageError(SlurmIoError):
    """The caller asked for something that cannot be asked for."""

    exit_code = 2


class ConfigError(UsageError):
    """A site configuration file is unreadable or holds a bad key: names file, key and fix."""


class SpecError(UsageError):
    """A job's ``slurm-io:`` request is malformed: names the key and the accepted form."""


class HostError(SlurmIoError):
    """The operating system refused a read or a command: names the path or the command."""


class ManifestError(SlurmIoError):
    """A manifest is damaged, truncated, hostile or not a manifest: names file, line and the fix."""


class StoreError(SlurmIoError):
    """A job store is missing, damaged or of another schema version."""


class SlurmError(SlurmIoError):
    """A Slurm command failed or answered something that cannot be read."""


class SlurmUnreachable(SlurmError):
    """slurmctld, or the command that asks it, gave no answer in time: nothing is known to have
    changed, and nothing is known not to have."""


class SlurmNotFound(SlurmError):
    """Slurm knows no such node, job or reservation."""


class SlurmRefused(SlurmError):
    """Slurm, or a rule of this project, refused a change: the reason is in the text."""


class RegistryError(SlurmIoError):
    """Two modules registered one name, or a module registered nothing: a fault of our own."""
