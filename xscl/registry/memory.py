"""Memory of what transactions have compiled and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from xscl.catalog.intake_order import sweeps
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS
from xscl.language.facts import ChannelFacts
from xscl.language.forms import Preparer

__all__ = ["Known", "Memory"]

_MOST_KNOWN = 500_000
_MOST_PREPARERS = 20


@dataclass(slots=True)
class Known:
    """Numbers of committed groups and instances, templates and variables.

    All but templates stay until nobody needs them (``upkeep.catalog_rows``).
    This memory saves a look-up for every transaction.
    """

    groups: dict[str, int] = field(default_factory=dict)
    instances: dict[str, int] = field(default_factory=dict)
    templates: set[str] = field(default_factory=set)
    variables: dict[int, str] = field(default_factory=dict)
    swept: int = 0
    """Value of ``home.swept`` when these numbers were read."""

    def check(self, connection: Connection) -> None:
        """Forget the numbers of rows that upkeep may have removed since."""
        swept = sweeps(connection)
        if swept != self.swept:
            self.swept = swept
            self._forget()

    def _forget(self) -> None:
        self.groups.clear()
        self.instances.clear()
        self.variables.clear()

    def learn(self, other: Known) -> None:
        """Take over what another transaction has committed; everything is forgotten when it gets too much."""
        if len(self.groups) + len(self.instances) + len(self.variables) > _MOST_KNOWN:
            self._forget()
        self.groups |= other.groups
        self.instances |= other.instances
        self.templates |= other.templates
        self.variables |= other.variables


@dataclass(frozen=True, slots=True)
class Memory:
    """Numbers of committed rows, and compiled forms by namespaces."""

    known: Known = field(default_factory=Known)
    preparers: dict[str, Preparer] = field(default_factory=dict)

    def preparer(self, namespaces: str, facts: Mapping[str, ChannelFacts]) -> Preparer:
        """Return the preparer for these namespaces (JSON) and channels; it is kept while the channels stay the same."""
        found = self.preparers.get(namespaces)
        if found is None or found.channels != facts:
            if len(self.preparers) > _MOST_PREPARERS:
                self.preparers.clear()
            found = self.preparers[namespaces] = Preparer(read_stored(GROUPS.c.namespaces, namespaces), facts)
        return found
