"""The cases of the feed validator for Atom, and the rules to which the feeds of matches are held (``atom_rules``).

The validator is not here, only its cases: each says in a comment which name the feed deserves, or which it does not.
"""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

from atom_rules import NAMES, WARNINGS, faults

OTHERS = {
    "2/infoset-empty2.xml",  # an empty element with a namespace of its own
    "3.1.1.3/misplaced_element.xml",  # XHTML
    "4.1.3.2/content-src-extra-text.xml",  # content elsewhere
    "4.1.3.3/content-svg-mixed.xml",  # content of other types
    "4.2.11/missing-self.xml",  # feeds inside entries
    "4.2.2.3/category-label-escaped-html.xml",  # categories
    "4.2.7.2/link-rel-iana.xml",  # names of relations as addresses
    "4.2.7.2/link-rel-self-nomatch.xml",  # the address of the case itself
    "6.1/license-entry-invaliduri.xml",  # extensions
    "6.1/trackback-ping-outside-entry.xml",
    "must/feed_copyright_missing.xml",  # expects what is not there for another reason
    "must/feed_generator_not_really_uri.xml",
    "must/feed_unknown_element_core_namespace.xml",  # another namespace of Atom
}
"""Cases about what no feed of ours has."""
AGREED = 166
"""Cases that speak of the rules."""


def cases(data: Path) -> dict[str, bytes]:
    found = {}
    with tarfile.open(data / "suites" / "feedvalidator-testcases.tar.xz") as opened:
        for member in opened:
            name = member.name.partition("/testcases/atom/")[2]
            if name.endswith(".xml") and member.isfile() and (read := opened.extractfile(member)):
                found[name] = read.read()
    return found


def test_the_rules_are_those_of_the_validator(shared_data: Path) -> None:
    wrong, agreed = [], 0
    found_cases = cases(shared_data)
    assert found_cases.keys() >= OTHERS
    for name, data in found_cases.items():
        expected = re.search(rb"Expect:\s*(!?)(\w+)", data)
        if expected is None or name in OTHERS:
            continue
        word, found = expected[2].decode(), faults(data)
        if word == "Error":
            right = not found - WARNINGS
        elif word in NAMES:
            right = (word in found) != bool(expected[1])
        else:
            continue
        agreed += right
        wrong += [] if right else [(name, word, found)]
    assert wrong == []
    assert agreed == AGREED
