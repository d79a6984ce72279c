"""Syntax trees to canonical text: what it prints is parsed to an equal tree, and printed again to the same text."""

from __future__ import annotations

from fractions import Fraction

from xscl.base.durations import format_duration
from xscl.language.syntax import ast

__all__ = [
    "format_level",
    "format_negation",
    "format_operand",
    "format_operator",
    "format_query",
    "format_select",
    "format_statement",
    "format_string",
]

_WHITE = " \t\r\n"
_PLACES = 13
"""Places behind the point of a number that is written with one, and one more."""


def format_query(query: ast.Query) -> str:
    """Return a query with a line for every block and every join.

    Strings stand in single quotes, durations in the largest unit that divides them, ends of relative windows are
    closed, paths in brackets begin with '.', and what is said by default is left out.
    """
    lines = _tree(query.source if query.steps is None else query.steps)
    first = lines[0].lower()
    if query.select is not None:
        lines[0] = f"SELECT {format_select(query.select)} FROM {lines[0]}"
    elif first.startswith("select") and ast.blocks(query.source)[0].channel.lower() == "select":
        # Before some words a channel of that name would be taken for the keyword.
        lines[0] = f"SELECT * FROM {lines[0]}"
    for negation in query.negations:
        lines += [f"  {format_negation(negation)}", _block(negation.right)]
    if query.aggregate is not None:
        lines += _aggregate(query.aggregate)
    if query.publish is not None:
        lines.append(f"PUBLISH {query.publish}" + " SPANNING" * query.spanning + " AS ROWS" * query.as_rows)
    if query.starting != "NOW":
        lines.append(f"STARTING {query.starting if query.starting == 'ALL' else format_string(query.starting)}")
    if query.level is not None:
        lines.append(f"CONSISTENCY {format_level(query.level)}")
    if query.retracts:
        lines.append("ON CHANGE RETRACT")
    return "\n".join(lines)


def format_negation(negation: ast.Negation) -> str:
    """Return the words and braces of an absence."""
    return f"{negation.op.upper()} {{{_params(negation)}}}"


def _aggregate(aggregate: ast.Aggregate) -> list[str]:
    """Return the lines of windows and groups."""
    every = "" if aggregate.every is None else f" EVERY {format_duration(aggregate.every)}"
    per = f" PER {', '.join(map(format_operand, aggregate.per))}" if aggregate.per else ""
    last = f"WINDOW LAST {aggregate.last}{per}"
    lines = [last if aggregate.window is None else f"WINDOW {_limit(aggregate.window)}{every}"]
    if aggregate.group:
        lines.append(f"GROUP BY {', '.join(map(format_operand, aggregate.group))}")
    if aggregate.having:
        lines.append(f"HAVING {' AND '.join(map(_atom, aggregate.having))}")
    if aggregate.crossing:
        lines.append("ON CROSSING")
    if aggregate.once_per is not None:
        lines.append(f"ONCE PER {format_duration(aggregate.once_per)}")
    if aggregate.top is not None and aggregate.by is not None:
        lines.append(f"TOP {aggregate.top} BY {format_operand(aggregate.by)}")
    return lines


def format_level(level: ast.Level) -> str:
    """Return a level as it stands behind CONSISTENCY."""
    if level.blocking is None or level.memory is None:
        return "STRONG" if level == ast.STRONG else "MIDDLE"
    if level == ast.WEAK:
        return "WEAK"
    return f"BLOCKING {format_duration(level.blocking)} MEMORY {format_duration(level.memory)}"


def format_statement(statement: ast.Statement) -> str:
    """Return a statement of a script with its ';'."""
    match statement:
        case ast.DropQuery(name):
            return f"DROP QUERY {name};"
        case ast.DeclareNamespace(prefix, uri):
            return f"DECLARE NAMESPACE {prefix} = {format_string(uri)};"
        case ast.CreateQuery(None, query):
            return format_query(query) + ";"
        case ast.CreateQuery(name, query):
            return f"CREATE QUERY {name} AS\n{format_query(query)};"


def format_string(value: str) -> str:
    """Return a text in quotes."""
    return "'" + value.replace("'", "''") + "'"


# -- blocks ----------------------------------------------------------------------------------------------------


def _tree(tree: ast.Tree) -> list[str]:
    match tree:
        case ast.Block():
            return [_block(tree)]
        case ast.Filter():
            return [*_tree(tree.of), f"  {format_operator(tree)}"]
    right = _tree(tree.right)
    if not isinstance(tree.right, ast.Block):
        right[0] = "(" + right[0]
        right[-1] += ")"
    return [*_tree(tree.left), f"  {format_operator(tree)}", *right]


def format_operator(tree: ast.Join | ast.Next | ast.Fold | ast.Filter) -> str:
    """Return an operator of FROM with its braces, without its operands."""
    match tree:
        case ast.Join():
            return f"{tree.op.upper()} {{{_params(tree)}}}"
        case ast.Next():
            return f"NEXT {{{_params(tree)}}}" if tree.atoms or tree.windows else "NEXT"
        case ast.Fold():
            return f"FOLD {{{_fold(tree)}}}"
        case ast.Filter():
            return f"FILTER {{{_filter(tree)}}}"


def _fold(fold: ast.Fold) -> str:
    parts = [_params(fold)]
    if fold.conditions:
        parts.append("WHILE " + " AND ".join(map(_atom, fold.conditions)))
    kept = [f"{format_operand(each.value)} AS {each.name}" for each in fold.accumulators]
    kept += ["LONGEST"] * fold.longest
    kept += [] if fold.at_most is None else [f"AT MOST {fold.at_most}"]
    return ", ".join([" ".join(filter(None, parts))] * any(parts) + kept)


def _filter(step: ast.Filter) -> str:
    conditions = " AND ".join(
        f"DUR {each.op} {format_duration(each.time)}" if isinstance(each, ast.Duration) else _atom(each)
        for each in step.conditions
    )
    return ", ".join([conditions] * bool(conditions) + list(map(_window, step.windows)))


def _block(block: ast.Block) -> str:
    of = f"({format_query(block.query)})" if isinstance(block, ast.SubQuery) else block.channel
    return of + _binding(block.binding) + _brackets(block.predicates) + _steps(block.steps)


def _binding(binding: ast.Binding | None) -> str:
    return "" if binding is None else f"->{binding.name}"


def _steps(steps: tuple[ast.Step, ...]) -> str:
    return "".join(
        ("/" if step.axis == "child" else "//") + _test(step.test) + _binding(step.binding) + _brackets(step.predicates)
        for step in steps
    )


def _test(test: ast.Test) -> str:
    if test.kind == "text":
        return "text()"
    name = test.local if test.prefix is None else f"{test.prefix}:{test.local}"
    return "@" + name if test.kind == "attribute" else name


# -- brackets --------------------------------------------------------------------------------------------------


def _brackets(predicates: tuple[ast.Predicate, ...]) -> str:
    return "".join(f"[{_predicate(predicate)}]" for predicate in predicates)


def _predicate(predicate: ast.Predicate) -> str:
    match predicate:
        case ast.Or(parts):
            return " or ".join(_part(part, (ast.Or,)) for part in parts)
        case ast.And(parts):
            return " and ".join(_part(part, (ast.And, ast.Or)) for part in parts)
        case ast.Not(part):
            return f"not({_predicate(part)})"
        case ast.Truth(operand, op, literal):
            text = _expression(operand)
            return text if op is None or literal is None else f"{text} {op} {_expression(literal)}"


def _part(part: ast.Predicate, parenthesised: tuple[type, ...]) -> str:
    return f"({_predicate(part)})" if isinstance(part, parenthesised) else _predicate(part)


def _expression(expression: ast.RelPath | ast.Literal_ | ast.Call) -> str:
    match expression:
        case ast.RelPath(steps):
            # With the dot in front no name is taken for a word or a function.
            return "." + _steps(steps)
        case ast.Literal_(value, is_number):
            return value if is_number else format_string(value)
        case ast.Call(name, args):
            return f"{name}({', '.join(map(_expression, args))})"


# -- parameters of a join --------------------------------------------------------------------------------------


def _params(join: ast.Join | ast.Negation | ast.Next | ast.Fold) -> str:
    atoms = " AND ".join(map(_atom, join.atoms))
    return ", ".join([atoms] * bool(atoms) + list(map(_window, join.windows)))


def _atom(atom: ast.Atom) -> str:
    return f"{format_operand(atom.left)} {atom.op} {format_operand(atom.right)}"


def format_operand(operand: ast.Expression) -> str:
    """Return a side of a predicate."""
    match operand:
        case ast.StringOperand(value):
            return format_string(value)
        case ast.FunctionOperand(name, inner):
            return f"{name}({format_operand(inner)})"
        case ast.Linear(None, _, constant):
            return _number(constant)
        case ast.Linear(ast.VarPath() as path, factor, constant):
            text = _var_path(path)
            if factor == -1:
                text = "-" + text
            elif factor != 1:
                text = f"{_number(factor)} * {text}"
            if constant:
                text += f" {'-' if constant < 0 else '+'} {_number(abs(constant))}"
            return text
        case ast.Arithmetic(op, left, right):
            return f"{_inner(left)} {op} {_inner(right)}"
    raise AssertionError(operand)


def _inner(operand: ast.Expression) -> str:
    """Return an operand of arithmetic, in parentheses where it needs them."""
    text = format_operand(operand)
    if isinstance(operand, ast.Linear) and (text.isdigit() or operand == ast.Linear(operand.path)):
        return text
    return f"({text})" if isinstance(operand, ast.Linear | ast.Arithmetic) else text


def _number(number: Fraction) -> str:
    places = next((places for places in range(_PLACES) if 10**places % number.denominator == 0), 0)
    if not places:
        return str(number)  # of what no short decimal is equal to, a division, which is exact
    digits = f"{abs(number.numerator) * 10**places // number.denominator:0{places + 1}}"
    return f"{'-' * (number < 0)}{digits[:-places]}.{digits[-places:]}"


def _var_path(path: ast.VarPath) -> str:
    return path.name + _steps(path.steps)


def _window(window: ast.Window | ast.RelativeWindow) -> str:
    if isinstance(window, ast.RelativeWindow):
        low = "-UNBOUNDED" if window.low is None else format_duration(window.low)
        return f"{window.later} - {window.earlier} IN [{low}, {_limit(window.high)}]"
    match window.kind:
        case "once":
            return "ONCE"
        case "between":
            return "BETWEEN"
        case "rows":
            return f"LAST {window.high} OF {window.of}"
        case "max":
            return f"MAXWINDOW {_limit(window.high)}"
        case "range":
            return f"{_limit(window.low)}..{_limit(window.high)}"
        case "within":
            return _limit(window.high)


def _limit(micros: int | None) -> str:
    return "UNBOUNDED" if micros is None else format_duration(micros)


# -- SELECT ----------------------------------------------------------------------------------------------------


def format_select(select: tuple[ast.SelectItem, ...] | ast.Constructor) -> str:
    """Format the output of SELECT, without the word."""
    if isinstance(select, ast.Constructor):
        return _element(select)
    return ", ".join(_var_path(item.path) + ("" if item.name is None else f" AS {item.name}") for item in select)


def _element(element: ast.Constructor) -> str:
    tag = element.name
    for attribute in element.attributes:
        value = "".join(_hole(part) if isinstance(part, ast.VarPath) else _value(part) for part in attribute.parts)
        tag += f' {attribute.name}="{value}"'
    if not element.content:
        return f"<{tag}/>"
    return f"<{tag}>{''.join(map(_content, element.content))}</{element.name}>"


def _content(part: str | ast.VarPath | ast.Constructor) -> str:
    match part:
        case ast.Constructor():
            return _element(part)
        case ast.VarPath():
            return _hole(part)
        case str():
            if not part.strip(_WHITE):
                # Written out it would be left out.
                return _references(part, _WHITE)
            return _references(_escaped(part), "\r")


def _hole(path: ast.VarPath) -> str:
    return f"{{{_var_path(path)}}}"


def _value(text: str) -> str:
    return _references(_escaped(text).replace('"', "&quot;"), "\t\r\n")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("{", "{{").replace("}", "}}")


def _references(text: str, characters: str) -> str:
    return "".join(f"&#{ord(c)};" if c in characters else c for c in text)
