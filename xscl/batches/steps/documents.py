"""Documents of answers that tell what FOLDs keep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xscl.base.errors import XsclError
from xscl.batches.steps.rows import Layout, Rows
from xscl.batches.steps.values import Pairs
from xscl.batches.windows.values import text_of
from xscl.language.selection import told_document
from xscl.language.steps.terms import StepsDefinition
from xscl.store.event_content import stored_texts

__all__ = ["step_documents", "step_values"]


def step_documents(
    definition: StepsDefinition, layout: Layout, rows: Rows, places: Sequence[int]
) -> list[str | XsclError]:
    """Make the documents of the answers at some places as they are stored, or say why one is none."""
    told = step_values(definition, layout, rows, places)
    return stored_texts([told_document(definition.element, values) for values in told])


def step_values(definition: StepsDefinition, layout: Layout, rows: Rows, places: Sequence[int]) -> list[dict[str, str]]:
    """Return the values by name that the answers at some places tell."""
    pairs = Pairs(layout, rows, np.array(places, dtype=np.int64))
    named = definition.columns if definition.element is None else definition.holes
    found: list[dict[str, str]] = [{} for _ in places]
    for name, asked in named:
        for values, value in zip(found, pairs.values(asked), strict=True):
            values[name] = text_of(value)
    return found
