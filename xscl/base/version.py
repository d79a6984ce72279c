"""The version, where every part may look it up."""

from __future__ import annotations

__all__ = ["VERSION"]

VERSION = "0.1.0"
