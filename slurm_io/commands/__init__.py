"""One click command per file: arguments, call, print, exit code; no logic.

A module of this folder exposes a click command called ``command``; the module's name is the
command's name (``import_`` is ``import``, ``verify_signature`` is ``verify-signature``). A folder
in this folder is a group whose ``command`` is a :class:`CommandFolder`. Modules are imported only
when their command is asked for, so that ``slurm-io run`` does not pay for the analysis.

Exit codes: 0 fine, 1 found what was asked for, 2 usage, 3 could not do it, 130 interrupted, 141 the
reader of the output went away. No traceback reaches a user: one line says what happened and what to
do; ``--debug`` shows the rest.
"""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import shutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
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


class _Given(click.types.StringParamType):
    """A word that is not empty: ``-o "$UNSET"`` must not mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == "":
            self.fail("it is empty (a variable that is not set?)", param, ctx)
        return str(super().convert(value, param, ctx))


class _SettingsFile(_Given):
    """A path made absolute: nodes and processes of ours that begin in another folder get it too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(Path(super().convert(value, param, ctx)).absolute())


class FiniteRange(click.FloatRange):
    """A number in a range: "nan" passes every comparison, and "inf" an open end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


def columns() -> int:
    """How wide an answer may be: the terminal's width, and where it goes to none, any."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


GIVEN = _Given()
SETTINGS_OPTION = click.option(
    "--config",
    "config_path",
    type=_SettingsFile(),
    metavar="FILE",
    help="The site's configuration file.",
)
EPILOG = (
    "Exit codes: 0 fine; 1 found what it looks for (a bad file, a failed check, a difference); "
    "2 usage; 3 could not do it. `run` ends with the command's own code."
)
COULD_NOT = 3
INTERRUPTED = 130  # 128 + SIGINT, as a shell counts: no answer was reached
READER_GONE = 141  # 128 + SIGPIPE: an answer nobody read is not "fine"


@click.group(
    cls=CommandFolder,
    package=__name__,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="slurm-io")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def cli(debug: bool) -> None:
    """Which share of a job's GPU time storage cost, why, and what to change."""


def main() -> None:
    """Entry point of ``slurm-io``: turns every error into one line and an exit code."""
    own_arguments = sys.argv[1 : _own_arguments_end()]
    debug = "--debug" in own_arguments or bool(os.environ.get("SLURM_IO_DEBUG"))
    if hasattr(
        sys.stdout, "reconfigure"
    ):  # a name that the terminal cannot show is no reason to die
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.exit(_call(sys.argv[1:]))
    except SlurmIoError as error:
        _complain(str(error), debug)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (``| head``): not an error of the user's.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)  # what is still buffered goes there at exit
        os.dup2(null, 2)
        sys.exit(READER_GONE)
    except KeyboardInterrupt:
        _complain("interrupted", debug)
        sys.exit(INTERRUPTED)
    except OSError as error:
        _complain(_system_text(error), debug)
        sys.exit(COULD_NOT)
    except Exception as error:  # noqa: BLE001 - the one place where a fault of ours is caught
        _complain(f"internal fault ({type(error).__name__}: {error}); --debug shows where", debug)
        sys.exit(COULD_NOT)


def _call(arguments: Sequence[str]) -> int:
    """Run the command line. ``click``'s own ``main`` ends an interrupt and a lost reader with 1."""
    if "_SLURM_IO_COMPLETE" in os.environ:
        cli(prog_name="slurm-io")  # the shell asks for completions
    try:
        with cli.make_context("slurm-io", list(arguments)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0


def _system_text(error: OSError) -> str:
    """`error` without Python's dress: the path, where it names one, and what the kernel said."""
    reason = error.strerror or str(error)
    if isinstance(error, FileNotFoundError) and _current_folder_is_gone():
        return "the current folder was deleted: go to another one"
    return f"{error.filename!a}: {reason}" if error.filename else f"{reason}; --debug shows where"


def _current_folder_is_gone() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def _own_arguments_end() -> int:
    """Index of ``--`` in sys.argv: what follows belongs to the wrapped command."""
    return sys.argv.index("--") if "--" in sys.argv else len(sys.argv)


def _complain(message: str, debug: bool) -> None:
    if debug:
        traceback.print_exc()
    # Messages for a job's output carry the name already. What users wrote steers no terminal.
    line = "".join(each if each.isprintable() else "?" for each in " ".join(message.split()))
    print(f"slurm-io: {line.removeprefix('slurm-io: ')}", file=sys.stderr)
