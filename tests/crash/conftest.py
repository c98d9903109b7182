"""The room that prolog and epilog tests have, for crashes of the epilog's finisher."""

from tests.epilog.conftest import room

__all__ = ["room"]
