"""Putting off pandas in commands until something needs it: Spark, times in other forms, or functions of one's own.

pyarrow imports pandas when it first makes or reads an array of numpy, which takes a fifth of a second.  Where it has
found none, it looks again only when it is asked for an object of pandas.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["let_pandas_in", "put_pandas_off"]


class _Hidden(MetaPathFinder):
    """Says that there is no pandas."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas; every other module is for the next finder."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is put off until let_pandas_in", name=fullname)
        return None


_hidden = _Hidden()


def put_pandas_off() -> None:
    """Hide pandas from this process until ``let_pandas_in``; call it before pyarrow is imported."""
    if _hidden not in sys.meta_path and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _hidden)


def let_pandas_in() -> None:
    """Show pandas again, to pyarrow too, which may have looked for it in vain."""
    if _hidden in sys.meta_path:
        sys.meta_path.remove(_hidden)
        if "pyarrow" in sys.modules:
            import pyarrow as pa

            pa.array([0]).to_pandas()
