"""Commands made of functions: groups of options are records, and a command's help ends with examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, get_type_hints

import typer

__all__ = ["command"]

_EXAMPLES = re.compile(r"\n\nExamples?: (?P<examples>.*)", re.DOTALL)


def command(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command of ``app``.

    A parameter that is annotated with a dataclass stands for an option a field.  The last paragraph of the
    docstring, ``Example: xscl …``, ends the help; further examples have lines of their own.
    """

    def add(function: Callable[..., None]) -> Callable[..., None]:
        text = cleandoc(function.__doc__ or "")
        found = _EXAMPLES.search(text)
        # A paragraph a line: the help keeps no single line ends.
        examples = None if found is None else "Example: " + "\n\n".join(found["examples"].splitlines())
        app.command(name, help=_EXAMPLES.sub("", text), epilog=examples)(_expanded(function))
        return function

    return add


def _expanded(function: Callable[..., None]) -> Callable[..., None]:
    """Wrap a function so that it takes the fields of its groups in place of the groups."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[Any]] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }

    def parameters() -> Iterator[Parameter]:
        for given in signature(function).parameters.values():
            if given.name not in groups:
                yield given.replace(annotation=hints[given.name], kind=Parameter.KEYWORD_ONLY)
                continue
            types = get_type_hints(groups[given.name], include_extras=True)
            for field in fields(groups[given.name]):
                yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])

    @wraps(function)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    taken = list(parameters())
    run.__signature__ = Signature(taken)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in taken}
    return run
