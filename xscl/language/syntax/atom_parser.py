"""The braces of a join, atoms and windows: one method a rule of docs/reference/language.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from xscl.base.durations import MAX_DIGITS, UNITS, iso_duration, scaled
from xscl.base.own_functions import RESERVED
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_operand
from xscl.language.syntax.path_parser import COMPARISONS, PathParser
from xscl.language.syntax.token_reader import shown
from xscl.language.syntax.tokens import Token

__all__ = ["AGGREGATES", "ATOM_FUNCTIONS", "AtomParser"]

AGGREGATES = ("count", "sum", "avg", "min", "max", "first", "last")
ATOM_FUNCTIONS = ("lower", "normalize-space", "host", "url")
_ZERO, _ONE = Fraction(0), Fraction(1)
_BEHIND = (
    "and",
    "in",
    "every",
    "group",
    "having",
    "on",
    "once",
    "top",
    "publish",
    "starting",
    "consistency",
    "memory",
    "while",
)
"""Words that may stand behind a number without a unit."""
_HUGE = 10**MAX_DIGITS


class AtomParser(PathParser):
    """Reads the predicates and windows of joins."""

    negates = False
    """Whether the braces are those of something that must not be there."""
    aggregates = False
    """Whether aggregate functions may come."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(text, tokens)
        self.measures: dict[str, ast.Measure] = {}
        """Values of groups by their texts."""

    def params(self, op: str) -> tuple[tuple[ast.Atom, ...], tuple[ast.Window | ast.RelativeWindow, ...]]:
        """Read the braces of a join by ``op``: atoms and windows."""
        if self.token.kind != "{":
            self.fail(
                f"expected '{{' with the join's predicates and window, found {shown(self.token)}",
                hint=f"write A {op.upper()} {{x = y, 1 h}} B",
            )
        self.next()
        atoms: list[ast.Atom] = []
        windows: list[ast.Window | ast.RelativeWindow] = []
        if self.token.kind != "}":
            while True:
                window = self.window_if()
                if window is not None:
                    windows.append(window)
                elif self.token.kind == "number" and (atoms or windows or self.at_unit()):
                    self.duration()
                    self.no_and_behind([*windows, None])
                    self.fail(f"expected ',' or '}}' after the window, found {shown(self.token)}")
                elif atoms or windows:
                    self.fail(
                        f"expected a window, found {shown(self.token)}",
                        hint="predicates come first and are joined by AND, windows follow after commas:"
                        " {x = y AND z = w, 1 h}",
                    )
                else:
                    atoms.append(self.atom())
                    while self.take_word_if("and"):
                        atoms.append(self.atom())
                if not self.take_op_if(","):
                    break
        self.no_and_behind(windows)
        self.no_foreign_sign(in_brackets=False)
        self.op("}", "to close the join's parameters")
        return tuple(atoms), tuple(windows)

    def at_unit(self) -> bool:
        """Return whether a number with a unit of time comes, and AND behind it."""
        return self.peek().kind == "name" and self.peek().value.lower() in UNITS and self.peek(2).is_word("and")

    def no_and_behind(self, windows: Sequence[object]) -> None:
        """Refuse AND behind a window."""
        if windows and self.token.is_word("and"):
            message = f"{self.token.value} behind a window; predicates stand before it"
            self.fail(message, hint="write {x = y AND z = w, 1 h}")

    def window_if(self) -> ast.Window | ast.RelativeWindow | None:
        """Read a window, if one comes."""
        token, after = self.token, self.peek()
        alone = after.kind in (",", "}") or after.is_word("while")
        if token.is_word("unbounded") and alone:
            self.next()
            return ast.Window("within", None, None, token.span)
        if token.is_word("once") and alone:
            self.next()
            return ast.Window("once", None, None, token.span)
        if token.is_word("between") and alone and self.negates:
            self.next()
            return ast.Window("between", None, None, token.span)
        if token.is_word("last") and after.kind == "number" and self.peek(2).is_word("of"):
            return self.row_window()
        if token.is_word("maxwindow") and after.kind in ("number", "string"):
            self.next()
            bare = self.bare_number()
            return ast.Window("max", None, self.duration(), self.since(token), bare)
        if token.is_word("maxwindow") and after.kind == "name":
            self.fail("MAXWINDOW takes a duration", at=after, hint="for example MAXWINDOW 7 days")
        if self.at_relative_window():
            return self.relative_window()
        if token.kind == "name" and "-" in token.value and after.is_word("in"):
            later, _, earlier = token.value.partition("-")
            self.fail(
                f"{token.value!r} is one name",
                hint=f"write white space around the '-': {later} - {earlier.lstrip('-')} IN …",
            )
        if not self.at_duration():
            return None
        bare = self.bare_number()
        low = self.duration()
        if not self.take_op_if(".."):
            return ast.Window("within", None, low, self.since(token), bare)
        bare = self.bare_number() or bare
        high = None if self.take_word_if("unbounded") else self.duration()
        return ast.Window("range", low, high, self.since(token), bare)

    def row_window(self) -> ast.Window:
        """Read ``LAST 2 OF x``."""
        start = self.next()
        count = self.whole_number("newest events")
        self.next()
        if self.token.kind != "name":
            self.fail(f"expected a variable after OF, found {shown(self.token)}", hint="for example LAST 2 OF x")
        name = self.next()
        return ast.Window("rows", None, count, self.since(start), of=name.value, of_span=name.span)

    def bare_number(self) -> str | None:
        """Return the number of a duration that comes and has no unit; None of 0, which needs none."""
        token = self.token
        is_bare = token.kind == "number" and self.peek().kind != "name" and bool(set(token.value) - set("0."))
        return token.value if is_bare else None

    def at_relative_window(self) -> bool:
        """Return whether a window between two variables comes."""
        return (
            self.token.kind == "name"
            and self.peek(1).kind == "-"
            and self.peek(2).kind == "name"
            and self.peek(3).is_word("in")
        )

    def at_duration(self) -> bool:
        """Return whether a duration comes that is a window, or begins one."""
        token, after = self.token, self.peek()
        if token.kind == "number" and after.kind == "name" and not after.is_word("while"):
            after = self.peek(2)
        return token.kind in ("number", "string") and (after.kind in (",", "}", "..") or after.is_word("while"))

    def duration(self) -> int:
        """Read a duration, microseconds."""
        token = self.next()
        if token.kind == "string":
            try:
                return iso_duration(token.value)
            except ValueError as error:
                self.fail(str(error), at=token, hint="for example 'PT5M' or 5 min")
        if token.kind != "number":
            self.fail(f"expected a duration, found {shown(token)}", at=token, hint="for example 7 days or 'PT5M'")
        unit = "s"
        if self.token.kind == "name" and not self.token.is_word(*_BEHIND):
            named = self.next()
            unit = named.value.lower()
            if unit not in UNITS:
                self.fail(
                    f"{named.value!r} is no unit of time", at=named, hint="units: us ms s min h d w, or long forms"
                )
        self.check_digits(token)
        return scaled(token.value, unit)

    def relative_window(self) -> ast.RelativeWindow:
        """Read a window between two variables."""
        later, _, earlier, _ = self.next(), self.next(), self.next(), self.next()
        opening = self.take_op_if("[", "(")
        if opening is None:
            self.fail(f"expected '[' or '(' after IN, found {shown(self.token)}")
        low = self.bound(infinite=-1)
        self.op(",", "between the bounds")
        high = self.bound(infinite=1)
        closing = self.take_op_if("]", ")")
        if closing is None:
            self.fail(f"expected ']' or ')', found {shown(self.token)}")
        # Time is discrete (microseconds), so an open end is a closed end one tick further in.
        if low is not None and opening.value == "(":
            low += 1
        if high is not None and closing.value == ")":
            high -= 1
        return ast.RelativeWindow(later.value, earlier.value, low, high, self.since(later), later.span, earlier.span)

    def bound(self, *, infinite: int) -> int | None:
        """Read an end of a window; None is unbounded."""
        start = self.token
        sign = -1 if self.take_op_if("-") else 1
        if self.take_word_if("unbounded"):
            if sign != infinite:
                self.fail("this end cannot be unbounded in that direction", at=self.since(start))
            return None
        return sign * self.duration()

    def atom(self) -> ast.Atom:
        """Read a predicate of a join."""
        start = self.token
        left = self.operand()
        if self.token.kind not in COMPARISONS:
            self.no_foreign_sign(in_brackets=False)
            self.no_foreign_word(start, in_brackets=False)
            self.no_comparison(start, left)
        op = self.comparison()
        right = self.operand()
        return ast.Atom(left, op, right, self.since(start))

    def no_comparison(self, start: Token, left: ast.Operand) -> NoReturn:
        """Refuse an operand that is compared with nothing."""
        written = self.text[start.start : self.since(start).end]
        if self.token.kind in (",", "}", ";", "end", "next") or self.token.is_word("and"):
            other = "'…'" if isinstance(left, ast.StringOperand) else "y"
            self.fail(
                f"{written} is compared with nothing",
                at=self.since(start),
                hint=f"write {written} = {other} with a variable of the other block, or a window alone: {{1 h}}",
            )
        self.fail(f"expected a comparison, found {shown(self.token)}", hint="one of " + " ".join(COMPARISONS))

    def operand(self) -> ast.Operand:
        """Read a side of a predicate."""
        token = self.token
        if token.kind == "string":
            self.next()
            return ast.StringOperand(token.value, token.span)
        if token.kind == "name" and self.peek().kind == "(" and not self.at_aggregate():
            self.next()
            if token.is_word("last"):
                self.unsupported(
                    "XSCL_STEP",
                    "last() is of an iteration of FOLD, and stands in the braces of one",
                    token.span,
                    "write A FOLD {x = y WHILE q > last(q, p)} B",
                )
            if token.value not in ATOM_FUNCTIONS and token.value.lower() in RESERVED:
                self.unsupported(
                    "XSCL_UNSUPPORTED_FUNCTION",
                    f"the function {token.value}() is not supported in a join predicate",
                    token.span,
                    f"supported: {', '.join(ATOM_FUNCTIONS)}, and functions of your own",
                )
            self.enter()
            self.next()
            inner = self.operand()
            self.op(")", f"to close {token.value}(")
            self.depth -= 1
            return ast.FunctionOperand(token.value, inner, self.since(token))
        return self.linear()

    def linear(self) -> ast.Linear:
        """Read a sum, linear in one variable path at most."""
        start = self.token
        total = self.product()
        while self.token.kind in ("+", "-"):
            sign = 1 if self.next().value == "+" else -1
            part = self.product()
            if total.path is not None and part.path is not None:
                self.fail(
                    "an expression may use one variable path",
                    at=self.since(start),
                    hint="move the other one to the other side of the comparison",
                )
            total = replace(
                total if total.path is not None else part,
                factor=total.factor if part.path is None else sign * part.factor,
                constant=total.constant + sign * part.constant,
                span=self.since(start),
            )
            self.check_size(total, start)
        return total if total.span.start == start.start else replace(total, span=self.since(start))

    def product(self) -> ast.Linear:
        """Read a product, linear in one variable path at most."""
        start = self.token
        total = self.factor()
        while self.token.kind in ("*", "/"):
            divide = self.next().value == "/"
            part = self.factor()
            if part.path is not None and (divide or total.path is not None):
                self.fail("this is not linear in one variable", at=self.since(start))
            if divide:
                if part.constant == 0:
                    self.fail("division by zero", at=self.since(start))
                part = replace(part, constant=1 / part.constant)
            path, scale = (part, total.constant) if part.path is not None else (total, part.constant)
            factor = path.factor * scale if path.path is not None else path.factor
            total = replace(path, factor=factor, constant=path.constant * scale, span=self.since(start))
            self.check_size(total, start)
        return total

    def check_size(self, number: ast.Linear, start: Token) -> None:
        """Refuse numbers that grow without bound as they are multiplied."""
        parts = (number.factor, number.constant)
        if any(abs(part.numerator) >= _HUGE or part.denominator >= _HUGE for part in parts):
            self.fail(f"a number of more than {MAX_DIGITS} digits", at=self.since(start))

    def factor(self) -> ast.Linear:
        """Read a factor of a product."""
        token = self.token
        if self.take_op_if("-"):
            self.enter()
            inner = self.factor()
            self.depth -= 1
            factor = inner.factor if inner.path is None else -inner.factor
            return replace(inner, factor=factor, constant=-inner.constant)
        if self.take_op_if("("):
            self.enter()
            inner = self.linear()
            self.op(")", "to close the parenthesis")
            self.depth -= 1
            return inner
        if token.kind == "number":
            self.next()
            self.check_digits(token)
            return ast.Linear(None, _ONE, Fraction(token.value), token.span)
        path = self.aggregate() if self.at_aggregate() else self.var_path()
        return ast.Linear(path, _ONE, _ZERO, path.span)

    def at_aggregate(self) -> bool:
        """Return whether an aggregate function comes."""
        return self.aggregates and self.token.is_word(*AGGREGATES) and self.peek().kind == "("

    def aggregate(self) -> ast.VarPath:
        """Read an aggregate function, and return the path that stands for it."""
        start = self.next()
        function = start.value.lower()
        self.next()
        distinct = self.token.is_word("distinct") and self.peek().kind != ")"
        if distinct:
            if function != "count":
                self.fail(f"DISTINCT belongs to count(), not to {function}()", hint="count(DISTINCT x)")
            self.next()
        operand = first = None
        if self.token.kind == "*" and self.peek().kind == ")":
            self.fail(
                f"{function}() takes a variable, not '*'",
                hint="count() counts matches" if function == "count" else f"write {function}(x)",
            )
        if self.token.kind != ")":
            self.aggregates = False
            operand = self.operand()
            first = self.operand() if self.take_op_if(",") else None
            self.aggregates = True
        elif function != "count":
            self.fail(f"{function}() of nothing", at=self.token, hint=f"write {function}(x) with a variable")
        self.op(")", f"to close {function}(")
        inner = ", ".join(format_operand(each) for each in (operand, first) if each is not None)
        text = f"{function}({'DISTINCT ' if distinct else ''}{inner})"
        return self.measured(ast.Measure(text, function, operand, distinct, first, self.since(start)))

    def whole_number(self, what: str) -> int:
        """Read a number of things, one at least."""
        token = self.token
        if token.kind != "number" or "." in token.value or not token.value.strip("0") or len(token.value) > 9:
            self.fail(f"expected a number of {what}, found {shown(token)}")
        return int(self.next().value)

    def measured(self, measure: ast.Measure) -> ast.VarPath:
        """Note a value of a group, and return the path that stands for it."""
        self.measures.setdefault(measure.text, measure)
        return ast.VarPath(measure.text, (), measure.span)
