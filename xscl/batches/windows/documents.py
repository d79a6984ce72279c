"""Documents of what is told of matches together."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.base.errors import XsclError
from xscl.batches.windows.answers import Answer
from xscl.batches.windows.values import text_of
from xscl.language.aggregates import Definition
from xscl.language.selection import told_document
from xscl.store.event_content import stored_texts

__all__ = ["answer_documents"]


def answer_documents(made: Sequence[tuple[Definition, Answer]]) -> list[str | XsclError]:
    """Make the documents of some answers as they are stored, or say why one is none."""
    told = []
    for definition, answer in made:
        named = definition.columns if definition.element is None else definition.holes
        told.append(
            told_document(definition.element, {name: text_of(answer.values.value(term)) for name, term in named})
        )
    return stored_texts(told)
