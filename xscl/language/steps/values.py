"""Values that steps speak of: variables, functions over iterations, and accumulators, by places instead of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from xscl.base.errors import QueryError, Span
from xscl.base.own_functions import is_own, shown_name
from xscl.language.declared import atom_function
from xscl.language.steps.terms import Accumulator, Computed, Taken, Value
from xscl.language.syntax import ast
from xscl.language.terms import Term
from xscl.language.windows import bound_block

__all__ = ["FoldNames", "Scope", "StepValues"]

_NOTHING = range(0)


@dataclass(slots=True)
class FoldNames:
    """A FOLD as values speak of it."""

    number: int
    accumulators: dict[str, int]
    """Names of what it keeps, by place."""
    blocks: range = _NOTHING
    right: range = _NOTHING
    """Blocks of what it takes."""
    taken: list[Taken] = field(default_factory=list)
    """Functions that are asked of it."""
    is_done: bool = False
    """Whether its braces were read."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A place in a text: the blocks whose variables have a value there."""

    blocks: range
    fold: FoldNames | None = None
    """The FOLD whose braces these are."""


class StepValues:
    """Values of one query."""

    def __init__(
        self,
        text: str,
        measures: Sequence[ast.Measure],
        block_of: Mapping[str, int],
        where: Mapping[str, tuple[int, int]],
        declared: Mapping[str, str],
    ) -> None:
        """Prepare; ``where`` has the part and the place of each variable that is mentioned, ``declared`` the functions
        of one's own.
        """
        self.declared = declared
        self.text, self.block_of, self.where = text, block_of, where
        self.measures = {measure.text: measure for measure in measures}
        self.folds: list[FoldNames] = []
        """FOLDs that were met so far."""

    def term(self, operand: ast.Operand, scope: Scope) -> Term:
        """Return a side of a condition."""
        match operand:
            case ast.StringOperand(value):
                return Term("text", text=value)
            case ast.Linear(None, _, constant):
                return Term("number", constant=constant, is_number=True)
            case ast.FunctionOperand(name, inner):
                full = atom_function(operand, self.declared, self.text)
                found = self.term(inner, scope)
                if found.is_number:
                    self._fail(f"{name}() of a number", operand.span, "it takes text")
                if is_own(full) and found.kind != "variable":
                    self._fail(f"{name}() of what is no variable", operand.span, "it takes the text of one variable")
                return replace(found, functions=(full, *found.functions))
        assert isinstance(operand, ast.Linear) and operand.path is not None
        if operand.factor == 0:
            self._fail(f"{operand.path.name} is multiplied by 0", operand.span, "leave it out")
        found = self.of_path(operand.path, scope)
        if operand.factor == 1 and operand.constant == 0:
            return found
        if found.functions:
            self._fail(
                f"{shown_name(found.functions[0])}() takes text, not arithmetic", operand.span, "compare plain values"
            )
        factor, constant = operand.factor * found.factor, operand.factor * found.constant + operand.constant
        return replace(found, factor=factor, constant=constant, is_number=True)

    def value(self, expression: ast.Expression, scope: Scope) -> Value:
        """Return the value of an expression."""
        if isinstance(expression, ast.Arithmetic):
            return Computed(expression.op, self.value(expression.left, scope), self.value(expression.right, scope))
        return self.term(expression, scope)

    def accumulator(self, accumulator: ast.Accumulator, scope: Scope) -> Accumulator:
        """Return what a FOLD keeps."""
        return Accumulator(accumulator.name, self.value(accumulator.value, scope))

    def of_path(self, path: ast.VarPath, scope: Scope) -> Term:
        """Return the value of a variable, an accumulator, or a function that a path stands for."""
        measure = self.measures.get(path.name)
        if measure is not None:
            return self._measure(replace(measure, span=path.span), scope)
        if path.steps:
            self._fail(
                f"a path behind the variable {path.name}",
                path.span,
                f"bind its node to a variable: [./{path.steps[0].test.local}->z]",
            )
        fold = scope.fold
        if fold is not None and path.name in fold.accumulators:
            first = self._left(path.name, scope)
            if first is None:
                self._fail(
                    f"{path.name} has no value at the first iteration",
                    path.span,
                    f"write last({path.name}, 0) for one, or bind ->{path.name} to the left",
                )
            return Term("accumulator", fold.accumulators[path.name], part=fold.number, first=first)
        return self._kept(path.name, scope) or self._variable(path, scope)

    def place(self, path: ast.VarPath, scope: Scope) -> tuple[int, int]:
        """Return the part and the place of a variable."""
        self.block(path.name, path.span, scope)
        return self.where[path.name]

    def block(self, name: str, span: Span, scope: Scope) -> int:
        """Return the block of a variable that has a value.

        Raises:
            UnboundVariableError: there is none.
        """
        return bound_block(name, span, self.text, self.block_of, scope.blocks)

    # -- names -------------------------------------------------------------------------------------------------

    def _fail(self, message: str, span: Span, hint: str) -> NoReturn:
        raise QueryError("XSCL_STEP", message, text=self.text, span=span, hint=hint)

    def _variable(self, path: ast.VarPath, scope: Scope) -> Term:
        part, place = self.place(path, scope)
        return Term("variable", place, part=part)

    def _done(self, scope: Scope) -> list[FoldNames]:
        """Return the FOLDs whose values there are, the outermost and last first."""
        found = [
            each
            for each in self.folds
            if each.is_done and each.blocks.start >= scope.blocks.start and each.blocks.stop <= scope.blocks.stop
        ]
        return sorted(found, key=lambda each: (-each.blocks.stop, each.blocks.start))

    def _kept(self, name: str, scope: Scope) -> Term | None:
        """Return an accumulator by its name; None: there is none."""
        for fold in self._done(scope):
            if name in fold.accumulators:
                return Term("accumulator", fold.accumulators[name], part=fold.number)
        return None

    def _left(self, name: str, scope: Scope) -> Term | None:
        """Return a value of the left side of the FOLD by its name; None: there is none."""
        assert scope.fold is not None
        left = Scope(range(scope.blocks.start, scope.fold.right.start))
        found = self._kept(name, left)
        if found is None and self.block_of.get(name) in left.blocks:
            found = self._variable(ast.VarPath(name), left)
        return found

    # -- functions ---------------------------------------------------------------------------------------------

    def _measure(self, measure: ast.Measure, scope: Scope) -> Term:
        if measure.function == "value":
            assert measure.operand is not None
            return self.term(measure.operand, scope)
        if measure.distinct:
            self._fail(f"{measure.text} belongs to windows of matches", measure.span, "leave out DISTINCT")
        if measure.function == "last":
            return self._last(measure, scope)
        fold = self._fold_of(measure, scope)
        term = first = None
        if measure.operand is not None:
            term = self._plain(measure.operand, measure, Scope(fold.right))
        if measure.first is not None:
            first = self.term(measure.first, Scope(range(fold.blocks.start, fold.right.start)))
        taken = Taken(measure.function, term, first)
        if taken not in fold.taken:
            fold.taken.append(taken)
        return Term("aggregate", fold.taken.index(taken), part=fold.number)

    def _last(self, measure: ast.Measure, scope: Scope) -> Term:
        """Return the value of the iteration before."""
        fold, path = scope.fold, _plain_path(measure.operand)
        if fold is None:
            self._fail(
                f"{measure.text} is of an iteration of FOLD, and stands in the braces of one",
                measure.span,
                "behind the braces a variable has the value of the last iteration",
            )
        if path is None or measure.first is None:
            hint = "write last(q, p): q of the iteration before, and p at the first one"
            self._fail(f"{measure.text} is not last() of a variable with a value for the first one", measure.span, hint)
        first = self.term(measure.first, Scope(range(scope.blocks.start, fold.right.start)))
        if path.name in fold.accumulators:
            return Term("accumulator", fold.accumulators[path.name], part=fold.number, first=first)
        found = self._variable(path, Scope(fold.right))
        return replace(found, kind="last", first=first)

    def _fold_of(self, measure: ast.Measure, scope: Scope) -> FoldNames:
        """Return the FOLD over whose iterations a function is."""
        path = _plain_path(measure.operand)
        tried = [scope.fold] if scope.fold is not None else []
        block = None if path is None else self.block(path.name, path.span, scope)
        found = [fold for fold in [*tried, *self._done(scope)] if measure.operand is None or block in fold.right]
        if not found:
            self._fail(
                f"{measure.text} is over the iterations of a FOLD, and none takes that",
                measure.span,
                "name a variable of what stands to the right of FOLD",
            )
        return found[0]

    def _plain(self, operand: ast.Operand, measure: ast.Measure, scope: Scope) -> Term:
        path = _plain_path(operand)
        if path is None:
            self._fail(f"{measure.text} is over no plain variable", measure.span, "write sum(q), or sum(q, p)")
        return self._variable(path, scope)


def _plain_path(operand: ast.Operand | None) -> ast.VarPath | None:
    """Return the variable that an operand is; None: it is something else."""
    if not isinstance(operand, ast.Linear) or operand.path is None or operand.path.steps:
        return None
    return operand.path if operand.factor == 1 and operand.constant == 0 else None
