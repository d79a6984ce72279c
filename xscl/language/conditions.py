"""Brackets to conditions of steps, with names by URI."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NoReturn

from xscl.base.errors import QueryError, Span
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.own_functions import returns_numbers
from xscl.base.values import number_text
from xscl.base.words import is_word, split_words
from xscl.language.declared import own_function, prefixes
from xscl.language.syntax import ast
from xscl.language.syntax.path_parser import PREDICATE_FUNCTIONS
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    Here,
    Negation,
    NodeTest,
    Step,
    Truth,
    conditions,
    exists_chain,
)

__all__ = ["Brackets", "comparison"]

_NUMBERS = ("count", "string-length")
_BOOLEANS = ("contains", "starts-with", "contains-word")

# Most tests are the same few.
_node_test = lru_cache(maxsize=10_000)(NodeTest)


class Brackets:
    """Brackets of one text; places of refusals speak of it.

    Its methods raise QueryError: an undeclared prefix, a variable bound in a bracket, a bracket that means nothing.
    """

    def __init__(self, text: str, namespaces: Mapping[str, str] | None) -> None:
        self.text = text
        self.namespaces = {**DEFAULT_NAMESPACES, **(namespaces or {})}

    def test(self, test: ast.Test) -> NodeTest:
        """Return a test of nodes with its name by URI."""
        if test.kind == "text":
            return _node_test("text", "", None)
        local = None if test.local == "*" else test.local
        if test.prefix is None:
            # '*' alone matches any namespace; an unprefixed name means none.
            return _node_test(test.kind, None if local is None else "", local)
        if test.prefix == "*":
            return _node_test(test.kind, None, local)
        uri = self.namespaces.get(test.prefix)
        if uri is None:
            raise QueryError(
                "XSCL_UNDECLARED_PREFIX",
                f"the prefix {test.prefix} is not declared",
                text=self.text,
                span=test.span,
                hint=f"declare it: DECLARE NAMESPACE {test.prefix} = '…'; "
                f"known without declaration: {' '.join(sorted(prefixes(self.namespaces)))}",
            )
        return _node_test(test.kind, uri, local)

    def condition(self, predicate: ast.Predicate) -> Condition:
        """Return a bracket, or a part of one, as a condition."""
        match predicate:
            case ast.And(parts):
                return AllOf(conditions(self.condition(part) for part in parts))
            case ast.Or(parts):
                return AnyOf(conditions(self.condition(part) for part in parts))
            case ast.Not(part):
                return Negation(self.condition(part))
            case ast.Truth(ast.Call() as call, op, literal):
                return self._call_condition(call, op, literal)
            case ast.Truth(ast.RelPath(steps) as path, op, literal):
                compared = () if op is None or literal is None else (comparison(Here(), op, literal),)
                if steps:
                    return exists_chain(self.steps(steps), compared)
                if op is None or literal is None:
                    self._fail("XSCL_SYNTAX", "'.' alone is always true", path.span, "compare it, as in [. = 'x']")
                return comparison(Here(), op, literal)
        raise AssertionError(predicate)

    def _call_condition(self, call: ast.Call, op: str | None, literal: ast.Literal_ | None) -> Condition:
        converted = self._call(call)
        if op is None or literal is None:
            if call.name in _NUMBERS or returns_numbers(converted.name):
                self._fail(
                    "XSCL_SYNTAX",
                    f"{call.name}() is a number, which alone inside brackets would be a position",
                    call.span,
                    f"compare it, as in [{call.name}(…) > 0]",
                )
            return Truth(converted)
        if call.name in _BOOLEANS:
            self._fail(
                "XSCL_SYNTAX",
                f"{call.name}() is true or false and is not compared",
                call.span,
                f"write [{call.name}(…)] or [not({call.name}(…))]",
            )
        return comparison(converted, op, literal)

    def _call(self, call: ast.Call) -> Call:
        if call.name == "contains-word":
            return self._contains_word(call)
        return Call(self._function(call), tuple(self._expression(arg) for arg in call.args))

    def _function(self, call: ast.Call) -> str:
        """Return a function's name in definitions."""
        if call.name in PREDICATE_FUNCTIONS:
            return call.name
        return own_function(call.name, self.namespaces, self.text, call.span, sorted([*PREDICATE_FUNCTIONS, "not"]))

    def _contains_word(self, call: ast.Call) -> Call:
        """Return the call with its words folded, rising and each once, so that calls that ask the same are equal."""
        operand, *literals = call.args
        words = set()
        for literal in literals:
            assert isinstance(literal, ast.Literal_)
            if not is_word(literal.value):
                written = self.text[operand.span.start : operand.span.end]
                self._fail("XSCL_NOT_A_WORD", *_no_word(literal.value, written, literal.span))
            words.add(literal.value.casefold())
        return Call(
            call.name, (self._expression(operand), *(Constant(word, is_number=False) for word in sorted(words)))
        )

    def _expression(self, arg: ast.RelPath | ast.Literal_ | ast.Call) -> Expression:
        match arg:
            case ast.Literal_():
                return _constant(arg)
            case ast.Call():
                return self._call(arg)
            case ast.RelPath(steps):
                return Here(self.steps(steps))

    def steps(self, steps: tuple[ast.Step, ...]) -> tuple[Step, ...]:
        """Return steps where variables have no place: under ``or`` and ``not``, in functions and in SELECT."""
        found = []
        for step in steps:
            if step.binding is not None:
                self._fail(
                    "XSCL_BINDING_IN_DISJUNCTION",
                    f"the variable {step.binding.name} is bound under 'or', 'not', inside a function or in SELECT, "
                    "where it may have no node",
                    step.binding.span,
                    "bind it in a bracket of its own",
                )
            found.append(
                Step(
                    step.axis,
                    self.test(step.test),
                    conditions(part for p in step.predicates for part in self._conjuncts(p)),
                )
            )
        return tuple(found)

    def _conjuncts(self, predicate: ast.Predicate) -> list[Condition]:
        if isinstance(predicate, ast.And):
            return [c for part in predicate.parts for c in self._conjuncts(part)]
        return [self.condition(predicate)]

    def _fail(self, condition: str, message: str, span: Span, hint: str) -> NoReturn:
        raise QueryError(condition, message, text=self.text, span=span, hint=hint)


def _no_word(text: str, operand: str, span: Span) -> tuple[str, Span, str]:
    """Return why a text is no word, its place, and a hint."""
    words = [word for word in split_words(text) if is_word(word)]
    shown = [f"contains-word({operand}, {_quoted(word)})" for word in words]
    if not words:
        hint = f"a word has a letter or a digit; write [contains({operand}, {_quoted(text)})] for any text"
    elif len(words) == 1:
        hint = f"write {_quoted(words[0])}"
    elif len(words) > 3:
        hint = f"write [contains({operand}, …)] for the text as it stands"
    else:
        hint = f"write [{' and '.join(shown)}], or [contains({operand}, {_quoted(text)})] for the text as it stands"
    count = "no word" if not words else "not exactly one word" if len(words) == 1 else f"{len(words)} words"
    return f"{_quoted(text)} is {count}", span, hint


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _constant(literal: ast.Literal_) -> Constant:
    if not literal.is_number:
        return Constant(literal.value, is_number=False)
    return Constant(number_text(literal.value) or literal.value, is_number=True)


def comparison(left: Expression, op: str, literal: ast.Literal_) -> Comparison:
    """Return a comparison with a literal."""
    return Comparison(left, op, _constant(literal))
