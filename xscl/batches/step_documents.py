"""Documents of answers that tell what FOLDs keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xscl.base.errors import XsclError
from xscl.batches.aggregate_values import text_of
from xscl.batches.step_rows import Layout, Rows
from xscl.batches.step_values import Pairs
from xscl.language.selection import told_document
from xscl.language.step_terms import StepsDefinition
from xscl.store.event_content import stored_document

__all__ = ["step_documents", "step_values"]


def step_documents(made: Sequence[tuple[StepsDefinition, Layout, Rows, int]]) -> list[str | XsclError]:
    """Make the documents of some answers as they are stored, or say why one is none."""
    found: list[str | XsclError] = []
    for definition, layout, rows, at in made:
        try:
            found.append(stored_document(told_document(definition.element, step_values(definition, layout, rows, at))))
        except XsclError as error:
            found.append(error.with_traceback(None))
    return found


def step_values(definition: StepsDefinition, layout: Layout, rows: Rows, at: int) -> dict[str, str]:
    """Return the values that an answer tells, by name."""
    pairs = Pairs(layout, rows, np.array([at]))
    named = definition.columns if definition.element is None else definition.holes
    return {name: text_of(pairs.values(value)[0]) for name, value in named}
