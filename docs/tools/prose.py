"""Check the English of README and docs where a machine can: length of sentences, openings, words that we replaced.

    python docs/tools/prose.py [FILE…]

A sentence names its subject, says one idea and has about twenty words.  The exit code is 1 if a file breaks the rule.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

MEAN_WORDS = 20
"""Words of a file's sentences on average, at most."""

MOST_WORDS = 45
"""Words of one sentence, at most."""

OPENINGS = ("What", "Those", "That (?:of|is|was|has|which)", "It", "Of", "Which", "Whoever", "Whatever", "One that")
"""Words that begin no sentence, because they name neither an actor nor a thing; questions may."""

WORDS = {
    r"held|holds? an event|kept for ever": "retained",
    r"tak(?:e|es|en|ing) in|took in": "ingest",
    r"no more(?! than)": "no longer",
    r"anew": "again",
    r"comes? to be|comes into being": "is created",
    r"for ever": "forever",
    r"told apart|tells? apart": "distinguish",
    r"of which no": "name the thing",
}
"""Patterns of words that do not stand in prose, with the word to write instead."""


def prose(text: str) -> list[str]:
    """Return the paragraphs and list items of a Markdown text, without code, tables, headings, links and images."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2 *$", "\n\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "Code", text)
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.strip() or re.match(r"\s*(#|\||!!!|:::|    \S|=+$|-{3,}$)", line):
            # Indented lines are code, or the rest of a list's item.
            if re.match(r"    \S", line) and blocks[-1] and blocks[-1][0].lstrip().startswith(("- ", "* ", "1. ")):
                blocks[-1].append(line)
                continue
            blocks.append([])
        elif re.match(r"\s*([-*]|\d+\.) ", line):
            blocks.append([re.sub(r"^\s*([-*]|\d+\.) ", "- ", line)])
        else:
            blocks[-1].append(line)
    return [" ".join(" ".join(block).removeprefix("- ").split()) for block in blocks if block]


def sentences(block: str) -> list[str]:
    """Return the sentences of a paragraph; a colon before a list or code ends one, too."""
    parts = re.split(r"(?<=[.!?:])[*_\")”]*\s+(?=[\"“*_(]*(?:[A-Z0-9]|xscl\b))", block)
    return [part for part in parts if re.search(r"\w", part)]


def faults(path: Path) -> list[str]:
    """Return a line for each place of a file that breaks the rule."""
    found, lengths = [], []
    for block in prose(path.read_text(encoding="utf-8")):
        for sentence in sentences(block):
            words = re.findall(r"[\w’'-]+", sentence)
            lengths.append(len(words))
            start = re.sub(r"^[\"“*_(]+", "", sentence)
            if len(words) > MOST_WORDS:
                found.append(f"{len(words)} words: {sentence[:70]}…")
            opening = re.match(rf"(?:{'|'.join(OPENINGS)})\b", start)
            if opening and not sentence.rstrip("*_) ").endswith("?"):
                found.append(f"begins with {opening[0]!r}: {sentence[:70]}")
            for pattern, instead in WORDS.items():
                match = re.search(rf"\b(?:{pattern})\b", sentence, re.IGNORECASE)
                if match:
                    found.append(f"{match[0]!r}, write {instead!r}: {sentence[:70]}")
    mean = sum(lengths) / len(lengths) if lengths else 0
    if mean > MEAN_WORDS:
        found.append(f"a sentence has {mean:.1f} words on average; {MEAN_WORDS} are allowed")
    return found


def pages() -> list[Path]:
    """Return README, the changelog and all pages of docs."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def main(arguments: list[str]) -> int:
    """Print the faults of the given files, or of all pages."""
    bad = 0
    for path in [Path(name).resolve() for name in arguments] or pages():
        for fault in faults(path):
            bad += 1
            print(f"{path.relative_to(ROOT)}: {fault}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
