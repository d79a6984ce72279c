"""Element constructors of SELECT: ``<echo by="{x2}">{x1/title}{x4/title}</echo>``, read as XQuery 3.1 reads them.

A constructor is no sequence of tokens: its text may hold quotes, ';' and anything else, so it has a reader of its own.
Elements, attributes, text, holes ``{…}``, comments, the escapes ``{{`` and ``}}``, character references and the five
predefined entities are known; processing instructions, CDATA sections and declarations of namespaces are not.

White space alone between tags, holes and comments is left out, as XQuery strips boundary space; ``&#32;`` stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from xscl.base.errors import QuerySyntaxError, Span
from xscl.base.xml_characters import NO_CHARACTER, plain_name
from xscl.language.syntax.ast import Constructor, ConstructorAttribute, VarPath
from xscl.language.syntax.tokens import next_statement

__all__ = ["ENTITIES", "MAX_DEPTH", "MAX_LENGTH", "is_element_name", "read", "recover"]

MAX_DEPTH = 100
"""Elements inside each other."""
MAX_LENGTH = 65_536
"""Characters of one constructor, so that one that is not closed is noticed soon."""
ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

Hole = Callable[[int], tuple[VarPath, int]]
"""Reads the inside of a hole from an offset; gives it with the offset behind its '}'."""

_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT = re.compile(r"[^<{}&]+")
_VALUE = {quote: re.compile(rf"[^<{{}}&{quote}]+") for quote in "'\""}
_REFERENCE = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|([A-Za-z]+));")
_NEWLINE = re.compile(r"\r\n?")
_STATEMENT_END = re.compile(r";[ \t\r]*(?:\n|\Z)")


@dataclass(slots=True)
class _Open:
    """An element whose end tag has not come yet."""

    name: str
    start: int
    attributes: tuple[ConstructorAttribute, ...]
    content: list[str | VarPath | Constructor] = field(default_factory=list)

    def add_text(self, text: str) -> None:
        if self.content and isinstance(self.content[-1], str):
            self.content[-1] += text
        elif text:
            self.content.append(text)


def read(text: str, start: int, hole: Hole) -> tuple[Constructor, int]:
    """Return the constructor that begins with the '<' at ``start``, and the offset behind it.

    Raises:
        QueryError: it is none (``XSCL_SYNTAX``), or what ``hole`` raises; with the exact place.
    """
    return _Reader(text, start, hole).read()


def recover(text: str, start: int) -> int:
    """Return the place at which reading goes on after a malformed constructor that begins at ``start``.

    The place is behind the first ';' that ends a line, or at the first line that begins a statement, if that is first.
    """
    after = min(next_statement(text, start), len(text))
    found = _STATEMENT_END.search(text, start, after)
    return after if found is None else found.start() + 1


def is_element_name(name: str) -> bool:
    """Whether an element without namespace can be called that in XML."""
    return plain_name().fullmatch(name) is not None


class _Reader:
    def __init__(self, text: str, start: int, hole: Hole) -> None:
        self.text = text
        self.start = start
        self.at = start
        self.hole = hole
        self.open: list[_Open] = []

    def read(self) -> tuple[Constructor, int]:
        while True:
            done = self.end_tag() if self.text.startswith("</", self.at) else self.start_tag()
            if done is not None:
                if not self.open:
                    return done, self.at
                self.open[-1].content.append(done)
            self.content(self.open[-1])

    def fail(self, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=self.text, span=Span(start, end), hint=hint)

    # -- tags --------------------------------------------------------------------------------------------------

    def start_tag(self) -> Constructor | None:
        """Read a start tag; gives the element if it is an empty one."""
        start = self.at
        self.at += 1
        name = self.name("the name of an element right after '<'", "a literal '<' is written &lt;")
        attributes: list[ConstructorAttribute] = []
        while True:
            space = self.skip_space()
            if self.text.startswith("/>", self.at):
                self.at += 2
                return Constructor(name, tuple(attributes), (), Span(start, self.at))
            if self.text.startswith(">", self.at):
                self.at += 1
                if len(self.open) == MAX_DEPTH:
                    self.fail(f"elements nest deeper than {MAX_DEPTH}", start, self.at)
                self.open.append(_Open(name, start, tuple(attributes)))
                return None
            if self.at >= len(self.text):
                self.fail(f"the tag <{name} is not closed", start, start + 1 + len(name), "close it by '>' or '/>'")
            if not space:
                self.fail(f"expected '>', '/>' or white space, found {self.shown()}", self.at, self.at + 1)
            attributes.append(self.attribute(attributes))

    def end_tag(self) -> Constructor:
        start = self.at
        self.at += 2
        name = self.name("the name of an element after '</'")
        self.skip_space()
        if not self.text.startswith(">", self.at):
            self.fail(f"expected '>' to close the end tag, found {self.shown()}", self.at, self.at + 1)
        self.at += 1
        element = self.open.pop()
        if name != element.name:
            self.fail(
                f"the end tag </{name}> does not match the start tag <{element.name}>",
                start,
                self.at,
                f"write </{element.name}>",
            )
        return Constructor(name, element.attributes, tuple(element.content), Span(element.start, self.at))

    def attribute(self, before: list[ConstructorAttribute]) -> ConstructorAttribute:
        start = self.at
        name = self.name("an attribute, '>' or '/>'")
        span = Span(start, self.at)
        if name == "xmlns" or name.startswith("xmlns:"):
            self.fail(
                "a constructor declares no namespaces",
                start,
                self.at,
                "declare the prefix before the query: DECLARE NAMESPACE p = '…';",
            )
        if any(name == other.name for other in before):
            self.fail(f"the attribute {name} is given twice", start, self.at, "leave one of them out")
        self.skip_space()
        if not self.text.startswith("=", self.at):
            self.fail(f"expected '=' after the attribute's name, found {self.shown()}", self.at, self.at + 1)
        self.at += 1
        self.skip_space()
        quote = self.text[self.at : self.at + 1]
        if quote not in ("'", '"'):
            self.fail(
                f"expected the attribute's value in quotes, found {self.shown()}",
                self.at,
                self.at + 1,
                f'as in {name}="{{x1}}"',
            )
        return ConstructorAttribute(name, self.value(quote), span)

    def value(self, quote: str) -> tuple[str | VarPath, ...]:
        start = self.at
        self.at += 1
        parts: list[str | VarPath] = []
        pending = ""
        while True:
            if self.text.startswith(quote, self.at):
                if not self.text.startswith(quote * 2, self.at):
                    self.at += 1
                    return (*parts, pending) if pending else tuple(parts)
                self.at += 2
                pending += quote
                continue
            if self.at >= len(self.text):
                self.fail("the attribute's value is not closed", start, start + 1, f"close it by {quote}")
            if self.text.startswith("<", self.at):
                self.fail("'<' has no place in an attribute's value", self.at, self.at + 1, "write &lt;")
            part = self.piece(_VALUE[quote])
            if isinstance(part, str):
                pending += part
            else:
                parts += [pending, part] if pending else [part]
                pending = ""

    # -- content -----------------------------------------------------------------------------------------------

    def content(self, element: _Open) -> None:
        """Read the content up to the next tag."""
        run, literal = "", True  # the text since the last tag, hole or comment; whether it is all written out
        while True:
            if self.at >= len(self.text) or self.at - self.start > MAX_LENGTH:
                self.fail(
                    f"the element <{element.name}> is not closed"
                    + (f" within {MAX_LENGTH:,} characters" if self.at < len(self.text) else ""),
                    element.start,
                    element.start + 1 + len(element.name),
                    f"close it by </{element.name}>",
                )
            if self.text.startswith("<", self.at):
                self.flush(element, run, literal)
                if not self.text.startswith(("<!", "<?"), self.at):
                    return
                self.comment()
                run, literal = "", True
                continue
            written = self.text[self.at] not in "&{}"
            part = self.piece(_TEXT)
            if isinstance(part, str):
                run += part
                literal = literal and written
            else:
                self.flush(element, run, literal)
                element.content.append(part)
                run, literal = "", True

    def flush(self, element: _Open, run: str, literal: bool) -> None:
        if not literal or run.strip(" \t\r\n"):
            element.add_text(run)

    def comment(self) -> None:
        start = self.at
        if not self.text.startswith("<!--", start):
            what = "a processing instruction" if self.text[start + 1] == "?" else "a CDATA section or a declaration"
            self.fail(f"{what} has no place in a constructor", start, start + 2, "write text with &lt; and &amp;")
        end = self.text.find("--", start + 4)
        if end < 0:
            self.fail("a comment that is not closed by '-->'", start, start + 4)
        if not self.text.startswith("-->", end):
            self.fail("'--' has no place in a comment of XML", end, end + 2)
        self.at = end + 3

    def piece(self, plain: re.Pattern[str]) -> str | VarPath:
        """Return a run of text, an escape, a reference or a hole."""
        at, text = self.at, self.text
        found = plain.match(text, at)
        if found is not None:
            bad = NO_CHARACTER.search(text, at, found.end())
            if bad is not None:
                self.fail(f"the character {bad[0]!r} has no place in XML", bad.start(), bad.end())
            self.at = found.end()
            run = _NEWLINE.sub("\n", found[0])
            return run if plain is _TEXT else run.replace("\n", " ").replace("\t", " ")
        if text.startswith(("{{", "}}"), at):
            self.at += 2
            return text[at]
        if text[at] == "{":
            path, self.at = self.hole(at + 1)
            return path
        if text[at] == "}":
            self.fail("a '}' that closes no hole", at, at + 1, "a literal '}' is written '}}'")
        return self.reference()

    def reference(self) -> str:
        at = self.at
        found = _REFERENCE.match(self.text, at)
        if found is None:
            self.fail("a '&' that begins no reference", at, at + 1, "a literal '&' is written &amp;")
        self.at = found.end()
        if found[3] is not None:
            if found[3] not in ENTITIES:
                names = " ".join(f"&{name};" for name in ENTITIES)
                self.fail(f"the entity {found[0]} is not declared", at, self.at, f"known: {names} and &#…;")
            return ENTITIES[found[3]]
        number = int(found[1]) if found[1] is not None else int(found[2], 16)
        if number > 0x10FFFF or NO_CHARACTER.match(chr(number)):
            self.fail(f"{found[0]} is no character of XML", at, self.at)
        return chr(number)

    # -- names and white space ---------------------------------------------------------------------------------

    def name(self, what: str, hint: str | None = None) -> str:
        found = plain_name().match(self.text, self.at)
        if found is None:
            self.fail(f"expected {what}, found {self.shown()}", self.at, self.at + 1, hint)
        end = found.end()
        if self.text[end : end + 1] == ":" and (local := plain_name().match(self.text, end + 1)) is not None:
            end = local.end()
        start, self.at = self.at, end
        return self.text[start:end]

    def skip_space(self) -> bool:
        """Go past white space; whether there was any."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        return bool(found[0])

    def shown(self) -> str:
        return repr(self.text[self.at]) if self.at < len(self.text) else "end of text"
