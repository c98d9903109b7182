"""A registry that fills itself by listing a folder.

A folder of extensions (collectors, rules, report formats, checks) holds one module for each
thing. The module registers itself with a decorator; nobody keeps a central list. A module's
thing bears the module's own name, which the contract tests check.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from slurm_io.errors import RegistryError

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind, found in one package.

    Args:
        kind: what a thing is called in error messages, e.g. ``"collector"``.
        package: dotted name of the folder that is listed.
        skip: module names in that folder that hold no thing (``base`` by default).
    """

    def __init__(self, kind: str, package: str, skip: tuple[str, ...] = ("base",)) -> None:
        self._kind = kind
        self._package = package
        self._skip = skip
        self._things: dict[str, T] = {}
        self._discovered = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: file the decorated thing under `name`; a second one of that name fails."""

        def file(thing: T) -> T:
            if name in self._things:
                raise RegistryError(f"two {self._kind}s are called {name!r}: rename one of them")
            self._things[name] = thing
            return thing

        return file

    def module_names(self) -> list[str]:
        """Names of the modules that must each register one thing, sorted."""
        found = set()
        for folder in importlib.import_module(self._package).__path__:
            found |= _modules_in(folder)
        return sorted(name for name in found if name not in self._skip and name[0] != "_")

    def discover(self) -> dict[str, T]:
        """Import every module of the folder once and return name -> thing, sorted by name."""
        if not self._discovered:
            for module in self.module_names():
                importlib.import_module(f"{self._package}.{module}")
                if module not in self._things:
                    raise RegistryError(
                        f"{self._package}.{module} registers no {self._kind} called {module!r}"
                    )
            self._discovered = True
        return dict(sorted(self._things.items()))

    def get(self, name: str) -> T:
        """The thing called `name`; KeyError-free: an unknown name says which exist."""
        things = self.discover()
        if name not in things:
            raise RegistryError(f"no {self._kind} called {name!r}; there are: {', '.join(things)}")
        return things[name]

    def __iter__(self) -> Iterator[T]:
        return iter(self.discover().values())


def _modules_in(folder: str) -> set[str]:
    """Names of the modules and packages of a folder. Not by pkgutil, which loads inspect: 6 ms."""
    names = os.listdir(folder)
    found = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    found |= {name for name in names if os.path.isfile(f"{folder}/{name}/__init__.py")}
    return {name for name in found if name.isidentifier()}
