"""The braces of steps, NEXT, FOLD and FILTER: one method a rule of docs/reference/language.md."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from xscl.language.syntax import ast
from xscl.language.syntax.atom_parser import AtomParser
from xscl.language.syntax.path_parser import COMPARISONS
from xscl.language.syntax.token_reader import shown

__all__ = ["FoldBraces", "StepParser", "linear_of"]

_MOST_OPERATIONS = 100
"""Operations of arithmetic in the value of an accumulator."""
_OPENING, _CLOSING = ("(", "[", "{"), (")", "]", "}")
_FOLD = "write A FOLD {x = y WHILE q > last(q, p), LONGEST} B"
_BEHIND_NAME = (*COMPARISONS, "+", "-", "*", "/", "//", ",", "}")


@dataclass(slots=True)
class FoldBraces:
    """Parts of the braces of FOLD, as they are read."""

    atoms: list[ast.Atom] = field(default_factory=list)
    windows: list[ast.Window | ast.RelativeWindow] = field(default_factory=list)
    conditions: list[ast.Atom] = field(default_factory=list)
    accumulators: list[ast.Accumulator] = field(default_factory=list)
    longest: bool = False
    at_most: int | None = None

    @property
    def is_past_windows(self) -> bool:
        """Whether something was read that stands behind windows."""
        return bool(self.conditions or self.accumulators or self.longest or self.at_most)


class StepParser(AtomParser):
    """Reads the braces of steps."""

    def next_braces(self) -> tuple[tuple[ast.Atom, ...], tuple[ast.Window | ast.RelativeWindow, ...]]:
        """Read the braces of NEXT, if there are any."""
        if self.token.kind != "{":
            return (), ()
        self.aggregates = True
        found = self.params("next")
        self.aggregates = False
        return found

    def filter_braces(self) -> tuple[tuple[ast.Atom | ast.Duration, ...], tuple[ast.RelativeWindow, ...]]:
        """Read the braces of FILTER."""
        if self.token.kind != "{":
            self.fail(
                f"expected '{{' with the conditions of FILTER, found {shown(self.token)}",
                hint="write FILTER {x > y AND DUR >= 10 min}",
            )
        self.next()
        self.aggregates = True
        conditions: list[ast.Atom | ast.Duration] = []
        windows: list[ast.RelativeWindow] = []
        while True:
            start = self.token
            window = self.window_if()
            if isinstance(window, ast.RelativeWindow):
                windows.append(window)
            elif window is not None and window.kind == "max" and window.high is not None:
                conditions.append(ast.Duration("<=", window.high, window.span))
            elif window is not None:
                self.fail(
                    "FILTER has no two operands with a time between them",
                    at=self.since(start),
                    hint="write DUR <= 10 min, or x - y IN [0 s, 10 min]",
                )
            elif windows or conditions:
                self.fail(f"expected a window, found {shown(self.token)}", hint="conditions are joined by AND")
            else:
                conditions.append(self.condition())
                while self.take_word_if("and"):
                    conditions.append(self.condition())
            if not self.take_op_if(","):
                break
        self.no_foreign_sign(in_brackets=False)
        self.op("}", "to close the conditions of FILTER")
        self.aggregates = False
        return tuple(conditions), tuple(windows)

    def condition(self) -> ast.Atom | ast.Duration:
        """Read a condition of FILTER."""
        start = self.token
        if not start.is_word("dur") or self.peek().kind not in COMPARISONS:
            atom = self.atom()
            path = atom.left.path if isinstance(atom.left, ast.Linear) else None
            if path is not None and atom.left == ast.Linear(path) and path.name.lower() == "dur":
                self.fail("DUR is the length of what stands to the left of FILTER", at=path.span)
            return atom
        self.next()
        op = self.comparison()
        if self.token.kind not in ("number", "string"):
            self.fail(
                f"DUR is a time, and is compared with one, not with {shown(self.token)}", hint="write DUR >= 10 min"
            )
        return ast.Duration(op, self.duration(), self.since(start))

    def fold_braces(self) -> FoldBraces:
        """Read the braces of FOLD."""
        if self.token.kind != "{":
            self.fail(f"expected '{{' with what FOLD asks for, found {shown(self.token)}", hint=_FOLD)
        self.next()
        self.aggregates = True
        found = FoldBraces()
        more = self.token.kind != "}"
        while more:
            self.fold_item(found)
            more = self.take_op_if(",") is not None
            if more and self.at_while():
                self.fail(f"{self.token.value} stands without ',' before it", hint=_FOLD)
            more = more or self.at_while()
        self.no_foreign_sign(in_brackets=False)
        self.op("}", "to close the braces of FOLD")
        self.aggregates = False
        return found

    def fold_item(self, found: FoldBraces) -> None:
        """Read a part of the braces of FOLD."""
        token = self.token
        if self.at_while():
            if found.is_past_windows:
                self.fail(f"{token.value} stands behind the windows, and once", hint=_FOLD)
            self.next()
            found.conditions.append(self.atom())
            while self.take_word_if("and"):
                found.conditions.append(self.atom())
        elif token.is_word("longest") and self.peek().kind in (",", "}"):
            self.next()
            found.longest = True
        elif token.is_word("at") and self.peek().is_word("most"):
            self.next()
            self.next()
            if found.at_most is not None:
                self.fail("AT MOST stands twice", at=token)
            found.at_most = self.whole_number("iterations")
        elif self.at_accumulator():
            found.accumulators.append(self.accumulator())
        elif found.is_past_windows:
            self.fail(f"expected 'expression AS name', LONGEST or AT MOST, found {shown(token)}", hint=_FOLD)
        elif (window := self.window_if()) is not None:
            found.windows.append(window)
        elif found.atoms or found.windows:
            self.fail(f"expected a window, WHILE or 'expression AS name', found {shown(token)}", hint=_FOLD)
        else:
            found.atoms.append(self.atom())
            while self.take_word_if("and"):
                found.atoms.append(self.atom())

    def at_while(self) -> bool:
        """Return whether WHILE comes, rather than a variable of that name."""
        is_value = self.peek().is_word("as") and self.peek(2).kind == "name"
        return self.token.is_word("while") and self.peek().kind not in _BEHIND_NAME and not is_value

    def at_accumulator(self) -> bool:
        """Return whether an expression with a name comes."""
        depth = ahead = 0
        while True:
            token = self.peek(ahead) if ahead else self.token
            if token.kind in ("end", "next", ";") or depth == 0 and token.kind in (",", "}"):
                return False
            if depth == 0 and ahead and token.is_word("as") and self.peek(ahead + 2).kind in (",", "}"):
                return self.peek(ahead + 1).kind == "name"
            depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
            ahead += 1

    def accumulator(self) -> ast.Accumulator:
        """Read a value that FOLD keeps."""
        start = self.token
        self.operations = 0
        value = self.expression()
        self.word("as", "behind the value")
        name = self.plain_name("a name after AS")
        return ast.Accumulator(value, name.value, self.since(start), name.span)

    # -- arithmetic of several variables -----------------------------------------------------------------------

    operations = 0
    """Number of operations of the value that is read."""

    def expression(self) -> ast.Expression:
        """Read a sum."""
        start = self.token.start
        total = self.expression_product()
        while self.token.kind in ("+", "-"):
            op: Literal["+", "-"] = "+" if self.next().kind == "+" else "-"
            total = self.combined(op, total, self.expression_product(), start)
        return total

    def expression_product(self) -> ast.Expression:
        """Read a product."""
        start = self.token.start
        total = self.expression_factor()
        while self.token.kind in ("*", "/"):
            op: Literal["*", "/"] = "*" if self.next().kind == "*" else "/"
            total = self.combined(op, total, self.expression_factor(), start)
        return total

    def expression_factor(self) -> ast.Expression:
        """Read a factor."""
        token = self.token
        if self.take_op_if("-"):
            self.enter()
            inner = self.expression_factor()
            self.depth -= 1
            return self.combined("*", ast.Linear(None, constant=Fraction(-1)), inner, token.start)
        if self.take_op_if("("):
            self.enter()
            inner = self.expression()
            self.op(")", "to close the parenthesis")
            self.depth -= 1
            return inner
        is_function = token.kind == "name" and self.peek().kind == "(" and not self.at_aggregate()
        return self.operand() if token.kind == "string" or is_function else self.factor()

    def combined(
        self, op: Literal["+", "-", "*", "/"], left: ast.Expression, right: ast.Expression, start: int
    ) -> ast.Expression:
        """Return an operation; one that is linear in one variable path as such."""
        self.operations += 1
        span = self.since(self.tokens[self.at - 1])
        span = replace(span, start=start)
        if self.operations > _MOST_OPERATIONS:
            self.fail(f"more than {_MOST_OPERATIONS} operations in one value", at=span)
        for side in (left, right):
            if isinstance(side, ast.StringOperand):
                self.fail("arithmetic takes numbers", at=side.span)
        if op == "/" and isinstance(right, ast.Linear) and right.path is None and right.constant == 0:
            self.fail("division by zero", at=span)
        made = linear_of(op, left, right)
        if made is None:
            return ast.Arithmetic(op, left, right, span)
        made = replace(made, span=span)
        self.check_size(made, self.tokens[self.at - 1])
        return made


def linear_of(op: str, left: ast.Expression, right: ast.Expression) -> ast.Linear | None:
    """Return an operation as a linear expression of one variable path at most; None: it is none."""
    if not isinstance(left, ast.Linear) or not isinstance(right, ast.Linear):
        return None
    path = left.path or right.path
    if op in ("+", "-"):
        if left.path is not None and right.path is not None:
            return None
        sign = 1 if op == "+" else -1
        factor = left.factor if right.path is None else sign * right.factor
        return ast.Linear(path, factor, left.constant + sign * right.constant)
    if op == "/" and right.path is not None or left.path is not None and right.path is not None:
        return None
    of, scale = (left, right.constant) if right.path is None else (right, left.constant)
    if op == "/":
        scale = 1 / scale
    return ast.Linear(path, of.factor if path is None else of.factor * scale, of.constant * scale)
