"""Write every command of ``xscl`` as Markdown: usage, help, examples and options, from the typer application."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup

from xscl.cli.app import app


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield each command that does something, with the words that call it, in the order of the program's help."""

    def below(command: object, words: str) -> Iterator[tuple[str, TyperCommand]]:
        if isinstance(command, TyperGroup):
            context = typer.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None and not inner.hidden:
                    yield from below(inner, f"{words} {name}")
        elif isinstance(command, TyperCommand):
            yield words, command

    yield from below(typer.main.get_command(app), "xscl")


def commands_text() -> str:
    """Return a section for each command, under a heading of the second level for each noun."""
    parts, noun = [], ""
    for words, command in commands():
        first = " ".join(words.split()[:2])
        if first != noun:
            noun = first
            parts.append(f"## `{first}`")
        if words != first:
            parts.append(f"### `{words}`")
        parts.append(_command_text(words, command))
    return "\n\n".join(parts)


def _command_text(words: str, command: TyperCommand) -> str:
    context = typer.Context(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    help_text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    examples = (command.epilog or "").removeprefix("Example: ").replace("\n\n", "\n")
    rows = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        if isinstance(parameter, TyperArgument):
            name, help_ = parameter.make_metavar(context), parameter.help or ""
        else:
            record = parameter.get_help_record(context)
            if record is None:
                continue
            name, help_ = record
        # A bar between backticks parts no cells.
        meaning = _escaped(help_).replace("|", "\\|")
        rows.append(f"| `{_row(name)}` | {_row(meaning)} |")
    table = "| argument or option | meaning |\n|---|---|\n" + "\n".join(rows) if rows else ""
    return "\n\n".join(
        part for part in (f"```sh\n{usage}\n```", _escaped(help_text), f"```sh\n{examples}\n```", table) if part
    )


def _row(text: str) -> str:
    return " ".join(text.split())


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", "\\[") if "`" not in text else text


if __name__ == "__main__":
    print(commands_text())
