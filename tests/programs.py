"""Programs of groups that do not change, and their files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from xscl.templates.plans import LiveGroup
from xscl.templates.program import Program
from xscl.templates.program_files import ProgramFiles


def build_program(groups: Iterable[LiveGroup]) -> Program:
    """The program of a set of live groups."""
    program = Program()
    for live in groups:
        program.add(live)
    return program


def save_program(program: Program, folder: Path) -> Path:
    """The file of a program, in a folder of its own below this one: workers know programs by their files."""
    return ProgramFiles(program).written(Path(tempfile.mkdtemp(prefix="program-", dir=folder)))
