"""Rows of links of a batch, put together with those of before (``templates.many_blocks.matches``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xscl.store.home import Home
from xscl.store.join_state import HeldState
from xscl.store.state_files import open_links, write_run
from xscl.templates.many_blocks.matches import assemble
from xscl.templates.many_blocks.runs import LinkRun
from xscl.templates.many_blocks.state import LinkState
from xscl.templates.program import Program
from xscl.templates.results import ResultColumns

__all__ = ["LinkWork"]


@dataclass
class LinkWork:
    """Rows of links that a batch knows."""

    home: Home
    program: Program
    _added: list[LinkRun] = field(default_factory=list)
    """Runs of earlier levels of the batch."""

    def add(self, name: str, state: HeldState, out: ResultColumns) -> str | None:
        """Add the matches that new rows of links among results complete with a state; return the file of these rows."""
        new = LinkRun.of(out.take_links())
        assemble(self.program, self._known(state), [new], out)
        self._added.append(new)
        path = write_run(self.home.root / f"witness/{name}-links.run", new)
        return str(path.relative_to(self.home.root))

    def add_files(self, new: Sequence[str], state: HeldState, out: ResultColumns) -> None:
        """Add the matches that rows of links complete with a state; tasks have found and written these rows."""
        runs = [open_links(str(self.home.root / path)) for path in new]
        assemble(self.program, self._known(state), runs, out)
        self._added += runs

    def _known(self, state: HeldState) -> LinkState:
        return LinkState(state.links(), state.floors, tuple(self._added))
