"""A server of the labs as a process of its own, whose first line of output is its address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

_REPOSITORY = Path(__file__).resolve().parents[2]
_STOP_TIMEOUT_S = 5


class ServerProcess:
    """``python -m MODULE ARGUMENTS``, from entering to leaving the context.

    Its standard input is a pipe that ends with us. `endpoint` is the address, "" before the start.
    """

    def __init__(
        self, module: str, *arguments: str, env: Mapping[str, str] | None = None, hint: str = ""
    ) -> None:
        self.endpoint = ""
        self._command = [sys.executable, "-m", module, *arguments]
        self._env = env
        self._hint = hint
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            self._command,
            cwd=_REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._env,
        )
        assert self._server.stdout is not None
        self.endpoint = self._server.stdout.readline().strip()
        if not self.endpoint:
            raise RuntimeError(f"{self._command[2]} did not start{self._hint}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate(timeout=_STOP_TIMEOUT_S)
