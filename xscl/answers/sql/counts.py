"""Statements that only count matches, which counts of classes answer as well as the matches themselves."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

__all__ = ["COUNTED", "replaced_counts"]

COUNTED = frozenset(["qid", "batch"])
"""Columns of ``matches`` that a relation of counts has."""
_OF_MATCHES = COUNTED | {
    *("match", "ts_min", "ts_max", "received_min", "received_max", "docids", "nodes", "replaces"),
}
_CLAUSES = frozenset(["kind", "expressions", "from_", "where", "group", "having", "order", "limit", "offset"])
_COUNTED_ROWS = "counted_rows"
_SUM = f"coalesce(sum({_COUNTED_ROWS}), 0L)"


def replaced_counts(tree: exp.Expr) -> Mapping[int, str] | None:
    """Give the place of each ``count(*)`` and the text that stands for it over ``match_steps.count_steps``.

    None if counts do not answer the statement: it must read ``matches`` alone, call nothing but ``count(*)``, and name
    no columns of matches but ``COUNTED``.
    """
    if not isinstance(tree, exp.Select) or any(value and name not in _CLAUSES for name, value in tree.args.items()):
        return None
    source = tree.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or table.name.lower() != "matches":
        return None
    if any(value and name not in ("this", "alias") for name, value in table.args.items()):
        return None
    aliases = {item.alias.lower() for item in tree.expressions if isinstance(item, exp.Alias)}
    if _COUNTED_ROWS in aliases:
        return None
    calls = []
    for node in tree.walk():
        match node:
            case exp.Anonymous():
                if not _counts_rows(node):
                    return None
                calls.append(node)
            case exp.Star() if not isinstance(node.parent, exp.Anonymous):
                return None
            case exp.Column() if node.name.lower() not in COUNTED | (aliases - _OF_MATCHES):
                return None
            case exp.TableAlias() if node.args.get("columns"):
                return None
            case exp.Func() | exp.Window() | exp.Filter() | exp.Distinct() | exp.Lambda():
                if not isinstance(node, (exp.And, exp.Or, exp.Case, exp.If, exp.Cast)):
                    return None
            case exp.Query() if node is not tree:
                return None
    # Spark names the column of a call after the call.
    unnamed = [item for item in tree.expressions if not isinstance(item, exp.Alias)]
    bare = {id(item) for item in unnamed}
    if any(item.find(exp.Anonymous) not in (None, item) for item in unnamed):
        return None
    found = {node.meta["start"]: _SUM + (" AS `count(1)`" if id(node) in bare else "") for node in calls}
    return found or None


def _counts_rows(node: exp.Anonymous) -> bool:
    match node.expressions:
        case [exp.Star() as star]:
            return _name(node) == "count" and not any(star.args.values())
        case [exp.Literal() as one]:
            return _name(node) == "count" and not one.is_string and one.this == "1"
    return False


def _name(node: exp.Anonymous) -> str:
    return str(node.this).lower()
