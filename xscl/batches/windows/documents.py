"""Documents of what is told of matches together."""

from __future__ import annotations

import json
from collections.abc import Sequence

from xscl.base.errors import XsclError
from xscl.batches.windows.answers import Answer
from xscl.batches.windows.values import text_of
from xscl.language.aggregates import Definition
from xscl.language.selection import told_document
from xscl.store.event_content import stored_texts
from xscl.store.results import answer_id

__all__ = ["answer_documents", "window_answer_id"]


def answer_documents(made: Sequence[tuple[Definition, Answer]]) -> list[str | XsclError]:
    """Make the documents of some answers as they are stored, or say why one is none."""
    told = []
    for definition, answer in made:
        named = definition.columns if definition.element is None else definition.holes
        told.append(
            told_document(definition.element, {name: text_of(answer.values.value(term)) for name, term in named})
        )
    return stored_texts(told)


def window_answer_id(key: str, answer: Answer, document: str) -> str:
    """Return the id of an answer with its document; ``key`` is what the group of its queries asks for."""
    return answer_id(key, answer.ts, (answer.name, json.dumps(answer.values.group)), document)
