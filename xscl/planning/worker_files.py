"""Files of a plan for workers, in a folder that goes with the process."""

from __future__ import annotations

import uuid
from pathlib import Path

from xscl.base.temporary import hold_folder, let_folder_go
from xscl.templates.program import Program
from xscl.templates.program_files import ProgramFiles
from xscl.xpath.row_files import RowFiles
from xscl.xpath.spec_files import SpecFiles

__all__ = ["WorkerFiles"]


class WorkerFiles:
    """The files for workers, in a folder that is made for the first of them."""

    def __init__(self, parent: Path, program: Program) -> None:
        """``parent`` gets the folder."""
        self.walked = SpecFiles("walked")
        self.program = ProgramFiles(program)
        self.rows = RowFiles()
        self._path = parent / uuid.uuid4().hex

    @property
    def folder(self) -> Path:
        """Return the folder, made if need be."""
        if not self._path.exists():
            self._path.mkdir()
            hold_folder(self._path)
        return self._path

    def remove(self) -> None:
        """Remove the folder."""
        let_folder_go(self._path)
