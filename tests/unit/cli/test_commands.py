"""Every command's help ends with examples that it takes, and an option of several commands is one option."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from xscl.cli.app import _Commands, app
from xscl.cli.commands import command
from xscl.cli.options import HomeOptions


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, by its words."""
    for name in group.list_commands(None):
        found = group.get_command(None, name)
        if hasattr(found, "list_commands"):
            yield from leaves(found, (*path, name))
        else:
            yield (*path, name), found


def everything() -> dict[tuple[str, ...], Any]:
    group = typer.main.get_command(app)
    assert isinstance(group, _Commands)
    return dict(leaves(group))


COMMANDS = everything()
SHARED = ("home", "catalog", "split", "id", "null", "ts", "ts_zone")


@dataclass(frozen=True)
class Size:
    """A group of options."""

    width: Annotated[int, typer.Option(min=1, help="Characters.")] = 3
    tall: bool = False


@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_help_ends_with_examples_that_the_command_takes(words: tuple[str, ...]) -> None:
    found = COMMANDS[words]
    assert found.epilog and "Example" not in found.help
    examples = found.epilog.removeprefix("Example: ").split("\n\n")
    assert 1 <= len(examples) <= 3
    shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert " ".join(shown.output.split()).endswith(" ".join(found.epilog.split()))
    for example in examples:
        example = next(part for part in example.split(" | ") if part.startswith("xscl"))
        start, rest = shlex.split(example)[: len(words) + 1], shlex.split(example)[len(words) + 1 :]
        assert start == ["xscl", *words]
        found.make_context(words[-1], rest)  # raises a usage error for an option that is none


def test_an_option_of_several_commands_says_the_same_everywhere() -> None:
    told: dict[str, set[tuple[str | None, str]]] = {}
    for words, found in COMMANDS.items():
        for option in found.params:
            # The demonstration makes a home.
            if option.name in SHARED and words != ("demo",):
                told.setdefault(option.name, set()).add((option.help, str(option.default)))
    assert {name: len(texts) for name, texts in told.items()} == dict.fromkeys(SHARED, 1)


def test_a_group_of_options_is_given_as_one_value() -> None:
    made: list[tuple[str, Size, HomeOptions]] = []
    small = typer.Typer()

    @command(small, "draw")
    def draw(name: str, size: Size, at: HomeOptions) -> None:
        """Draw a name.

        Example: xscl draw a --width 4
        xscl draw b
        """
        made.append((name, size, at))

    runner = CliRunner()
    assert runner.invoke(small, ["a", "--width", "4", "--tall"]).exit_code == 0
    assert runner.invoke(small, ["b"]).exit_code == 0
    assert made == [("a", Size(4, True), HomeOptions()), ("b", Size(), HomeOptions())]
    assert runner.invoke(small, ["a", "--width", "0"]).exit_code == 2
    text = " ".join(runner.invoke(small, ["--help"]).output.split())
    assert "Draw a name." in text and text.endswith("Example: xscl draw a --width 4 xscl draw b")
