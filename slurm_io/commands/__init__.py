"""One click command per file: arguments, call, print, exit code; no logic.

A module of this folder exposes a click command called ``command``; the module's name is the
command's name (``import_`` is ``import``, ``verify_signature`` is ``verify-signature``). A folder
in this folder is a group whose ``command`` is a :class:`CommandFolder`. Modules are imported only
when their command is asked for, so that ``slurm-io run`` does not pay for the analysis.

Exit codes: 0 fine, 1 found what was asked for, 2 usage, 3 could not do it. No traceback reaches a
user: one line says what happened and what to do; ``--debug`` shows the rest.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import traceback
from typing import Any

import click

from slurm_io import __version__
from slurm_io.errors import SlurmIoError


class CommandFolder(click.Group):
    """A group of commands found by listing a package's folder: ``package`` is its dotted name."""

    def __init__(self, *args: Any, package: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._modules())

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        module = self._modules().get(name)
        if module is None:
            return None
        command = importlib.import_module(f"{self._package}.{module}").command
        assert isinstance(command, click.Command)
        return command

    def _modules(self) -> dict[str, str]:
        """Command name -> module name."""
        names = (found.name for found in pkgutil.iter_modules(sys.modules[self._package].__path__))
        return {name.rstrip("_").replace("_", "-"): name for name in names}


@click.group(
    cls=CommandFolder, package=__name__, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="slurm-io")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Which share of a job's GPU time storage cost, why, and what to change."""


def main() -> None:
    """Entry point of ``slurm-io``: turns every error into one line and an exit code."""
    own_arguments = sys.argv[1 : _own_arguments_end()]
    debug = "--debug" in own_arguments or bool(os.environ.get("SLURM_IO_DEBUG"))
    try:
        cli(standalone_mode=True)
    except SlurmIoError as error:
        _complain(str(error), debug)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (``| head``): not an error of the user's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:  # noqa: BLE001 - the one place where a fault of ours is caught
        _complain(f"internal fault ({type(error).__name__}: {error}); --debug shows where", debug)
        sys.exit(3)


def _own_arguments_end() -> int:
    """Index of ``--`` in sys.argv: what follows belongs to the wrapped command."""
    return sys.argv.index("--") if "--" in sys.argv else len(sys.argv)


def _complain(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    print(f"slurm-io: {' '.join(message.split())}", file=sys.stderr)
