"""Paths, and the conditions in their brackets: one method a rule of docs/reference/language.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

from xscl.base.errors import QueryError, Span
from xscl.base.own_functions import RESERVED
from xscl.language.syntax import ast
from xscl.language.syntax.token_reader import TokenReader, shown
from xscl.language.syntax.tokens import Token

__all__ = ["COMPARISONS", "PREDICATE_FUNCTIONS", "PathParser"]

PREDICATE_FUNCTIONS: Mapping[str, tuple[int, int | None]] = {
    "contains": (2, 2),
    "contains-word": (2, None),
    "starts-with": (2, 2),
    "normalize-space": (0, 1),
    "string-length": (0, 1),
    "lower": (1, 1),
    "count": (1, 1),
}
"""Functions inside brackets, with the least and the greatest number of arguments; ``not`` has a rule of its own."""
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_FOREIGN_COMPARISONS = {"==": "=", "<>": "!=", "=<": "<=", "=>": ">=", "=!": "!="}
_FOREIGN_SIGNS = {"the character '&'": "and", "the character '|'": "or"}
"""Words that are meant by operators of other languages, by the message on their first character."""
_FOREIGN_WORDS = {
    "like": "contains({operand}, {value})",
    "ilike": "contains(lower({operand}), {value})",
    "contains": "contains({operand}, {value})",
    "contains-word": "contains-word({operand}, {value})",
    "starts-with": "starts-with({operand}, {value})",
    "startswith": "starts-with({operand}, {value})",
    "matches": "contains({operand}, {value})",
    "is": "{operand} = {value}",
    "eq": "{operand} = {value}",
    "ne": "{operand} != {value}",
    "lt": "{operand} < {value}",
    "le": "{operand} <= {value}",
    "gt": "{operand} > {value}",
    "ge": "{operand} >= {value}",
}
"""Forms that are meant by operators of other languages."""


class PathParser(TokenReader):
    """Reads paths and brackets."""

    def binding(self) -> ast.Binding | None:
        """Read a variable, if one is bound."""
        kind = self.token.kind
        if kind != "->" and (kind != "name" or self.token.value.lower() != "as"):
            return None
        self.next()
        if self.token.kind != "name":
            self.fail(f"expected a variable, found {shown(self.token)}")
        token = self.next()
        return ast.Binding(token.value, token.span)

    def no_binding_here(self, start: Token, bound: ast.Binding | None) -> None:
        """Refuse a binding behind the brackets of what begins with ``start``, or a second one."""
        token, variable = self.token, self.peek()
        if variable.kind != "name" or token.kind != "->" and not token.is_word("as"):
            return
        name = start.value if start.kind in ("name", "*") else "name"
        if bound is not None:
            message, hint = "a second variable for one node", f"bind it once: {name}->{bound.name}"
        else:
            message = "a variable behind the brackets; it stands before them"
            hint = f"write {name}->{variable.value}[…]"
        self.fail(message, at=Span(token.start, variable.end), hint=hint)

    def steps(self, *, binding: bool = True) -> tuple[ast.Step, ...]:
        """Read the steps of a path."""
        found = []
        # A '/' before a number, '-' or '(' divides (x/2); before anything else it starts a step.
        while self.token.kind == "//" or (self.token.kind == "/" and self.peek().kind not in ("number", "-", "(")):
            axis = "descendant" if self.next().value == "//" else "child"
            self.enter()
            found.append(self.step(axis, binding=binding))
        self.depth -= len(found)
        return tuple(found)

    def step(self, axis: str, *, binding: bool = True) -> ast.Step:
        """Read a step without its axis."""
        start = self.token
        test = self.test()
        bound = self.binding() if binding else None
        predicates = self.predicates()
        if binding:
            self.no_binding_here(start, bound)
        return ast.Step(axis, test, bound, predicates, self.since(start))  # type: ignore[arg-type]

    def test(self) -> ast.Test:
        """Read the node test of a step."""
        start = self.token
        if self.take_op_if("@"):
            prefix, local = self.name_test("an attribute's name after '@'")
            if prefix is not None and "*" in (prefix, local):
                self.fail(
                    "'*' beside a prefix is for elements",
                    at=self.since(start),
                    hint="write @name, @prefix:name or @*",
                )
            return ast.Test("attribute", prefix, local, self.since(start))
        if start.is_word("text") and start.value == "text" and self.peek().kind == "(":
            self.next()
            self.next()
            self.op(")", "after 'text('")
            return ast.Test("text", None, "", self.since(start))
        if start.kind == ".":
            self.fail("'.' is no step of a path", hint="'.' stands only at the start of a path inside brackets")
        if start.kind == "..":
            self.unsupported_axis("parent (..)", start.span)
        prefix, local = self.name_test("a name, '*', '@name' or 'text()'")
        if self.token.kind == "(":
            self.unsupported(
                "XSCL_UNSUPPORTED_FUNCTION",
                f"{local}() is not supported in a path",
                start.span,
                "supported there: names, '*', '@name', 'text()'",
            )
        return ast.Test("element", prefix, local, self.since(start))

    def name_test(self, what: str) -> tuple[str | None, str]:
        """Read a name with its prefix, or wildcards: (prefix, local name)."""
        if self.take_op_if("*"):
            if self.token.kind == ":" and self.peek().kind == "name":
                self.next()
                return "*", self.plain_name("a name after '*:'").value
            return None, "*"
        name = self.plain_name(what)
        if self.token.kind == "::":
            self.unsupported_axis(name.value, name.span)
        if self.token.kind != ":":
            return None, name.value
        self.next()
        if self.take_op_if("*"):
            return name.value, "*"
        return name.value, self.plain_name(f"a name or '*' after '{name.value}:'").value

    def unsupported_axis(self, axis: str, span: Span) -> NoReturn:
        """Refuse an axis."""
        self.unsupported(
            "XSCL_UNSUPPORTED_AXIS",
            f"the axis {axis} is not supported",
            span,
            "supported: '/' (child), '//' (descendant), '@' (attribute), 'text()'",
        )

    def predicates(self) -> tuple[ast.Predicate, ...]:
        """Read brackets."""
        found = []
        while self.token.kind == "[":
            self.enter()
            self.next()
            found.append(self.predicate())
            self.no_foreign_sign(in_brackets=True)
            self.op("]", "to close the bracket")
            self.depth -= 1
        return tuple(found)

    def predicate(self) -> ast.Predicate:
        """Read the condition in a bracket."""
        parts = [self.conjunction()]
        while self.take_word_if("or"):
            parts.append(self.conjunction())
        return parts[0] if len(parts) == 1 else ast.Or(tuple(parts), parts[0].span | parts[-1].span)

    def conjunction(self) -> ast.Predicate:
        """Read conditions joined by and."""
        parts = [self.unary()]
        while self.take_word_if("and"):
            parts.append(self.unary())
        return parts[0] if len(parts) == 1 else ast.And(tuple(parts), parts[0].span | parts[-1].span)

    def unary(self) -> ast.Predicate:
        """Read a condition without and and or."""
        start = self.token
        if start.value == "not" and start.kind == "name" and self.peek().kind == "(":
            self.next()
            return ast.Not(self.parenthesised(), self.since(start))
        if start.kind == "(":
            return self.parenthesised()
        operand: ast.RelPath | ast.Call = self.call() if self.at_call() else self.relpath()
        op, literal = None, None
        self.no_foreign_word(start, in_brackets=True)
        if self.token.kind in COMPARISONS:
            op = self.comparison()
            literal = self.literal()
        return ast.Truth(operand, op, literal, self.since(start))

    def comparison(self) -> ast.Op:
        """Read the operator of a comparison, which other languages write otherwise."""
        token, after = self.token, self.peek()
        written = token.value + after.value
        if after.start == token.end and written in _FOREIGN_COMPARISONS:
            right = _FOREIGN_COMPARISONS[written]
            self.fail(f"there is no operator {written}", at=Span(token.start, after.end), hint=f"write {right}")
        return cast(ast.Op, self.next().value)

    def parenthesised(self) -> ast.Predicate:
        """Read a condition in parentheses."""
        # A 'not', an 'or' and an 'and' may begin here, each a node of its own; two levels are enough for the three.
        self.enter(2)
        self.op("(", "")
        inner = self.predicate()
        self.no_foreign_sign(in_brackets=True)
        self.op(")", "to close the parenthesis")
        self.depth -= 2
        return inner

    def no_foreign_sign(self, *, in_brackets: bool) -> None:
        """Refuse ``&&`` and ``||``, which stand where a condition has ended, with the right form."""
        token, after = self.token, self.peek()
        if token.kind != "bad" or token.value not in _FOREIGN_SIGNS:
            return
        word = _FOREIGN_SIGNS[token.value]
        hint = f"write {word}" if in_brackets else f"write {word.upper()}"
        if word == "or" and not in_brackets:
            hint = "atoms are joined by AND; for OR register two queries"
        end = after.end if after.kind == "bad" and after.start == token.end else token.end
        self.fail(f"there is no operator {self.text[token.start : end]}", at=Span(token.start, end), hint=hint)

    def no_foreign_word(self, start: Token, *, in_brackets: bool) -> None:
        """Refuse an operator of other languages behind the operand that begins with ``start``, with the right form."""
        token, after = self.token, self.peek()
        if token.kind != "name" or token.value.lower() not in _FOREIGN_WORDS:
            return
        if after.kind not in ("string", "number", "name"):
            return
        operand, value = self.text[start.start : self.since(start).end], self.text[after.start : after.end]
        if not in_brackets:
            operand, value = "./a", value if after.kind != "name" else "'x'"
        if after.kind == "string" and token.value.lower() in ("like", "ilike"):
            value = value.replace("%", "")
        form = _FOREIGN_WORDS[token.value.lower()].format(operand=operand, value=value)
        where = "" if in_brackets else " in the brackets of a block, where texts are searched"
        self.fail(f"there is no operator {token.value}", at=token, hint=f"write [{form}]{where}")

    def literal(self) -> ast.Literal_:
        """Read a string or a number."""
        start = self.token
        negative = self.take_op_if("-") is not None
        token = self.token
        if token.kind == "number":
            self.check_digits(token)
            self.next()
            return ast.Literal_(("-" if negative else "") + token.value, True, self.since(start))
        if token.kind == "string" and not negative:
            self.next()
            return ast.Literal_(token.value, False, token.span)
        return self.fail(
            f"expected a string or a number, found {shown(token)}",
            hint="two paths of one document are not compared; bind them and join two blocks instead",
        )

    def at_call(self) -> bool:
        """Return whether a call of a function comes."""
        token = self.token
        if token.kind != "name" or self.peek().kind != "(":
            return False
        return token.value != "text" or self.peek(2).kind != ")"

    def call(self) -> ast.Call:
        """Read a call of a function."""
        start = self.next()
        if start.value not in PREDICATE_FUNCTIONS and start.value.lower() in RESERVED:
            self.unsupported(
                "XSCL_UNSUPPORTED_FUNCTION",
                f"the function {start.value}() is not supported inside brackets",
                start.span,
                "supported: " + ", ".join(sorted([*PREDICATE_FUNCTIONS, "not"])),
            )
        self.enter()
        self.op("(", "")
        args: list[ast.RelPath | ast.Literal_ | ast.Call] = []
        if self.token.kind != ")":
            args.append(self.argument())
            while self.take_op_if(","):
                args.append(self.argument())
        self.op(")", f"to close {start.value}(")
        self.depth -= 1
        least, most = PREDICATE_FUNCTIONS.get(start.value, (1, 1))  # a function of one's own takes one text
        if len(args) < least or most is not None and len(args) > most:
            wanted = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
            self.fail(f"{start.value}() takes {wanted} arguments, not {len(args)}", at=self.since(start))
        if start.value == "count" and not isinstance(args[0], ast.RelPath):
            self.fail("count() takes a path", at=args[0].span)
        if start.value == "contains-word":
            self.texts_alone(args[1:])
        return ast.Call(start.value, tuple(args), self.since(start))

    def texts_alone(self, words: Sequence[ast.RelPath | ast.Literal_ | ast.Call]) -> None:
        """Refuse words that are not written in quotes."""
        for word in words:
            if not isinstance(word, ast.Literal_) or word.is_number:
                written = self.text[word.span.start : word.span.end]
                hint = f"write '{written}'" if isinstance(word, ast.Literal_) else "write words as in 'ebola', 'zika'"
                self.fail("contains-word() takes words in quotes after its first argument", at=word.span, hint=hint)

    def argument(self) -> ast.RelPath | ast.Literal_ | ast.Call:
        """Read an argument of a function."""
        if self.token.kind in ("string", "number") or self.token.kind == "-":
            return self.literal()
        return self.call() if self.at_call() else self.relpath()

    def relpath(self) -> ast.RelPath:
        """Read a path inside brackets."""
        start = self.token
        if start.kind in ("/", "//"):
            raise QueryError(
                "XSCL_ABSOLUTE_PATH",
                f"a path inside brackets that starts with '{start.value}' would be absolute",
                text=self.text,
                span=start.span,
                hint=f"write '.{start.value}' for a path from here",
            )
        if self.take_op_if("."):
            follows = self.token.kind in ("name", "@", "*") and not self.token.is_word("and", "or")
            if follows and self.token.start == start.end:
                name = self.text[start.end : self.token.end]
                self.fail(f"'.' before {name!r}; a child is written with '/'", at=start, hint=f"write ./{name}")
            steps = self.steps()
        else:
            if start.kind == "number":
                self.unsupported(
                    "XSCL_UNSUPPORTED_FUNCTION",
                    "a position inside brackets is not supported",
                    start.span,
                    "brackets hold paths, comparisons with a literal and the functions "
                    + ", ".join(sorted([*PREDICATE_FUNCTIONS, "not"])),
                )
            self.enter()
            steps = (self.step("child"), *self.steps())
            self.depth -= 1
        return ast.RelPath(steps, self.since(start))

    def var_path(self) -> ast.VarPath:
        """Read a variable and the path after it."""
        start = self.token
        if start.kind != "name":
            self.fail(f"expected a variable, found {shown(start)}")
        self.next()
        return ast.VarPath(start.value, self.steps(binding=False), self.since(start))
