"""XPath suites of peers, as far as their expressions can be written as blocks: against what they state, and lxml.

An expression that our parser takes as a block's path applies; for that it is only spelled in the short form, and a
relative one is put behind its context.  The numbers asserted are those found once: fewer mean that something was lost.
"""

from __future__ import annotations

import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from posixpath import normpath

from lxml import etree
from patterns import plain_spec
from xpath_oracle import Law, Numbered

from xscl.base.errors import XsclError
from xscl.base.safe_xml import parse_xml
from xscl.base.values import to_number
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.pattern import Definition

AXES = (
    (r"\A/descendant-or-self::", "//"),
    (r"/\s*descendant::", "//"),
    (r"\bchild::", ""),
    (r"\battribute::", "@"),
    (r"/\.(?=/|$)", ""),
)
COUNT = re.compile(r"(?:fn:)?count\((.*)\)\Z", re.DOTALL)
COMPARED = re.compile(r"(/[\w*:.-]+)(/.*?)\s*(=|!=|<=?|>=?)\s*('[^']*'|-?[0-9.]+)\Z")
FOR = re.compile(r"for \$(\w+) in \(?([^()$]*?)\)?\s+return \$\1(/[^$]*)\Z")
STRING = re.compile(r"/string\(\)\Z")
PLACED = re.compile(r"(.*\[(?:[0-9]+|(?:fn:)?last\(\))\])(/.*)\Z", re.DOTALL)
PATH = re.compile(r"//?(?:text\(\)|[\w*@:.-]+)(?:\[[^][]*\])*(?://?(?:text\(\)|[\w*@:.-]+)(?:\[[^][]*\])*)*")


def members(path: Path) -> dict[str, bytes]:
    """The XML files of an archive by their paths in it."""
    found = {}
    with tarfile.open(path, "r|xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".xml") else None
            if file is not None:
                found[member.name] = file.read()
    return found


def short(xpath: str) -> str:
    xpath = STRING.sub("", xpath) or "/*"
    for long, instead in AXES:
        xpath = re.sub(long, instead, xpath)
    return xpath.strip()


def behind(context: str, xpath: str) -> str:
    if xpath.startswith("/"):
        return xpath
    return context.rstrip("/") + "/" + xpath if xpath != "." else context


def definition_of(xpath: str, namespaces: Mapping[str, str]) -> Definition | None:
    """The definition of an absolute path as a block; None where the language has no such block."""
    text = "S" + short(xpath)
    if not text.startswith("S/"):
        return None
    try:
        specs = compile_query(parse_query(text), text, namespaces=dict(namespaces)).specs
    except XsclError:
        return None
    (spec,) = specs
    return spec.definition


def values_of(definition: Definition, document: Numbered) -> list[str]:
    """The string values of the nodes in document order, once lxml has agreed on them."""
    spec = plain_spec(definition)
    rows = match_document(Automaton([spec]), "S", document.root)
    Law([spec]).check(document, rows)
    return [str(row.value) for row in sorted(rows, key=lambda row: row.node)]


@dataclass(frozen=True, slots=True)
class Case:
    """One statement of a suite about one document."""

    file: str
    xpath: str
    namespaces: Mapping[str, str]
    holds: Callable[[list[str]], bool]
    """Of the string values of the nodes."""


def check_cases(cases: Iterator[Case], texts: Mapping[str, bytes]) -> Counter[str]:
    """How many cases apply, of how many; all that apply must hold."""
    found: Counter[str] = Counter()

    @cache
    def document(file: str) -> Numbered | None:
        try:
            return Numbered(parse_xml(texts[file]))
        except XsclError:
            return None

    for case in cases:
        found["all"] += 1
        # What is counted on the way is not ours: lxml goes there, and the rest is asked of what stands there.
        placed = PLACED.match(case.xpath)
        path = "/*" + placed[2] if placed else case.xpath
        definition = definition_of(path, case.namespaces)
        if definition is None or case.file not in texts or (numbered := document(case.file)) is None:
            continue
        roots = subtrees(numbered, placed[1].replace("fn:", ""), case.namespaces) if placed else [numbered]
        if roots is None:
            continue
        found["apply"] += 1
        found["placed"] += bool(placed)
        values = [value for root in roots for value in values_of(definition, root)]
        assert case.holds(values), f"{case.file}: {case.xpath}, as {definition}, gave {values[:5]}"
    return found


def subtrees(document: Numbered, xpath: str, namespaces: Mapping[str, str]) -> list[Numbered] | None:
    """The elements that a path selects by lxml, each as a document; None where it is no path to elements."""
    try:
        found = document.tree.xpath(xpath, namespaces=namespaces or None)
    except etree.XPathError:
        return None
    if not isinstance(found, list) or not all(isinstance(node, etree._Element) for node in found):
        return None
    return [Numbered(parse_xml(etree.tostring(node, with_tail=False))) for node in found]


# -- jaxen -----------------------------------------------------------------------------------------------------


def stated(xpath: str, text: str) -> tuple[str, Callable[[list[str]], bool]]:
    """A path and what its values must be, from an expression and the string that it gives."""
    count = COUNT.match(xpath)
    if count:
        return count[1], lambda values: len(values) == to_number(text)
    compared = COMPARED.match(xpath)
    if compared and text in ("true", "false"):
        root, path, op, literal = compared.groups()
        return f"{root}[.{path} {op} {literal}]", lambda values: bool(values) is (text == "true")
    return xpath, lambda values: (values or [""])[0] == text


def jaxen_cases(tests: etree._Element) -> Iterator[Case]:
    for document in tests.iter("document"):
        file = "jaxen/core/" + str(document.get("url"))
        for context in document.iter("context"):
            above = str(context.get("select"))
            namespaces = {prefix: uri for prefix, uri in context.nsmap.items() if prefix}
            for test in context.iter("test", "valueOf"):
                parent = test.getparent()
                assert parent is not None
                if "document(" in str(parent.get("select")):
                    continue  # what is below speaks of that document
                at = behind(above, str(parent.get("select"))) if parent.tag == "test" else above
                select = str(test.get("select"))
                if test.tag == "valueOf":
                    count, compared = COUNT.match(select), COMPARED.match(behind(at, select))
                    whole = f"count({behind(at, count[1])})" if count else behind(at, select)
                    path, holds = stated(whole if count or compared else behind(at, select), test.text or "")
                    yield Case(file, path, namespaces, holds)
                elif test.get("count") and not test.get("exception"):
                    number = int(str(test.get("count")))
                    yield Case(file, behind(at, select), namespaces, lambda values, n=number: len(values) == n)


def test_jaxen(shared_data: Path) -> None:
    texts = members(shared_data / "suites" / "jaxen-xpath.tar.xz")
    (name,) = (name for name in texts if name.endswith("test/tests.xml"))
    found = check_cases(jaxen_cases(etree.fromstring(texts[name])), texts)
    print(dict(found))
    assert found["apply"] >= 91


# -- the W3C's -------------------------------------------------------------------------------------------------

QT = {"q": "http://www.w3.org/2010/09/qt-fots-catalog"}


def environments(root: etree._Element, folder: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Name to the document that is the context, and the prefixes."""
    found = {}
    for environment in root.iterfind(".//q:environment[@name]", QT):
        found[str(environment.get("name"))] = environment_of(environment, folder)
    return found


def environment_of(environment: etree._Element, folder: str) -> tuple[str, dict[str, str]]:
    source = environment.find("q:source[@role='.']", QT)
    file = "" if source is None else normpath(str(PurePosixPath(folder) / str(source.get("file"))))
    prefixes = {str(n.get("prefix")): str(n.get("uri")) for n in environment.iterfind("q:namespace", QT)}
    return file, {prefix: uri for prefix, uri in prefixes.items() if prefix}


def one_result(result: etree._Element) -> Callable[[list[str]], bool] | None:
    kind, text = etree.QName(result).localname, (result.text or "").strip()
    if kind == "assert-count":
        return lambda values: len(values) == int(text)
    if kind == "assert-empty":
        return lambda values: not values
    if kind == "assert-string-value":
        # Of several items: their values with spaces between.
        return lambda values: " ".join(" ".join(values).split()) == " ".join(text.split())
    return None


def qt_cases(texts: Mapping[str, bytes]) -> Iterator[Case]:
    top = "qt3tests"
    shared = environments(etree.fromstring(texts[f"{top}/catalog.xml"]), top)
    for name, content in texts.items():
        root = etree.fromstring(content) if b"<test-set" in content else None
        if root is None or root.tag != f"{{{QT['q']}}}test-set":
            continue
        folder = str(PurePosixPath(name).parent)
        known = {**shared, **environments(root, folder)}
        for case in root.iterfind("q:test-case", QT):
            environment, test = case.find("q:environment", QT), case.findtext("q:test", "", QT).strip()
            result = case.find("q:result", QT)
            if environment is None or result is None or not len(result):
                continue
            ref = environment.get("ref")
            file, prefixes = known.get(str(ref), ("", {})) if ref else environment_of(environment, folder)
            if not file:
                continue
            each, count = FOR.match(test), COUNT.match(test)
            path = each[2] + each[3] if each else test
            holds = one_result(result[0])
            if count:
                number = to_number((result[0].text or "").strip())
                path, holds = count[1], None if number is None else lambda values, n=number: len(values) == n
            if holds is not None and "/" in path:
                yield Case(file, path, prefixes, holds)


def test_w3c(shared_data: Path) -> None:
    texts = members(shared_data / "suites" / "qt3tests.tar.xz")
    found = check_cases(qt_cases(texts), texts)
    print(dict(found))
    assert found["apply"] >= 16


def test_every_path_in_the_w3c_suite(shared_data: Path) -> None:
    """Paths are taken out of larger expressions, and run on every document of the suite, all in one automaton."""
    texts = members(shared_data / "suites" / "qt3tests.tar.xz")
    paths: set[str] = set()
    for content in texts.values():
        if b"<test-set" in content:
            for test in re.findall(r"<test>([^<]*)</test>", content.decode()):
                paths.update(map(str.strip, PATH.findall(test.replace("&lt;", "<").replace("&gt;", ">"))))
    found = {definition for path in paths if (definition := definition_of(path, {})) is not None}
    documents = []
    for name, content in sorted(texts.items()):
        if "/docs/" in name and len(content) < 100_000:
            try:
                documents.append(Numbered(parse_xml(content)))
            except XsclError:
                continue
    specs = [plain_spec(definition) for definition in found]
    law, machine = Law(specs), Automaton(specs)
    rows = 0
    for document in documents:
        matched = match_document(machine, "S", document.root)
        law.check(document, matched)
        rows += len(matched)
    print(f"{len(paths)} paths, {len(found)} of them blocks, {len(documents)} documents, {rows} rows")
    assert len(found) >= 390
    assert len(documents) >= 22
    assert rows >= 2_500
