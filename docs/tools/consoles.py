"""Run the console blocks of pages and compare, or write, what they print.

    python docs/tools/consoles.py [--write] FILE…

A page's blocks run one after another in an empty folder, where ``docs`` and ``xscl`` lead to the repository's folders.
They print as on a terminal of 120 columns.  Seconds, and times of receipt with microseconds, may differ.  A service
that a page starts (``xscl serve … &``) listens on a free port in place of 8080, and ends with the page.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]

BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.DOTALL)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class _Messages(io.TextIOBase):
    """Standard error, which a terminal shows between the lines of standard output."""

    def __init__(self, terminal: _Terminal) -> None:
        self.terminal = terminal

    def write(self, text: str) -> int:
        return self.terminal.write(text)


class _Services:
    """Services that a page has started."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = str(free.getsockname()[1])
        self.running: list[subprocess.Popen[str]] = []

    def start(self, command: str) -> str:
        """Start a service in the background; return the line that it prints when it answers."""
        words = [*shlex.split(command.removesuffix("&"))[1:], "--port", self.port]
        service = subprocess.Popen([sys.executable, "-m", "xscl", *words], stderr=subprocess.PIPE, text=True)
        self.running.append(service)
        assert service.stderr is not None
        line = next((line for line in service.stderr if line.startswith(("serving", "error"))), "it did not start")
        # Its log must not fill the pipe.
        threading.Thread(target=service.stderr.read, daemon=True).start()
        return line.rstrip().replace(f":{self.port}", ":8080").replace(f"{Path.cwd()}/", "…/")

    def ask(self, command: str) -> str:
        """Return what a command line of curl prints."""
        asked = command.replace(":8080", f":{self.port}")
        done = subprocess.run(["bash", "-c", asked], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout.replace(f":{self.port}", ":8080").rstrip("\n")

    def close(self) -> None:
        """End the services."""
        for service in self.running:
            service.terminate()
            service.wait()


def run(command: str, services: _Services | None = None) -> str:
    """Return what a command prints, standard error included, and ``(exit code N)`` where it is not 0.

    Commands are those of xscl, and of curl where ``services`` may be started.
    """
    from xscl.cli.app import main

    if services is not None and command.startswith("curl "):
        return services.ask(command)
    if services is not None and command.endswith("&"):
        return services.start(command)
    terminal = _Terminal()
    with (
        patch.object(sys, "argv", shlex.split(command)),
        redirect_stdout(terminal),
        redirect_stderr(_Messages(terminal)),
    ):
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code or 0
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).replace(f"{Path.cwd()}/", "…/")
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return "\n".join([*lines, *([f"(exit code {code})"] if code else [])])


def masked(text: str) -> str:
    """Return a text without what differs from run to run: seconds that work took, and times of receipt."""
    text = re.sub(r"\b\d+(\.\d+)? (s|ms)\b", "0 s", text)
    text = re.sub(r'("\w+_s": ?)\d+\.\d+', r"\g<1>0.0", text)
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z", "NOW", text)


def replayed(page: str) -> str:
    """Return a page with the output that its commands print now, where that differs by more than a mask hides."""

    def again(block: re.Match[str]) -> str:
        parts = []
        for part in block[2].split("$ ")[1:] if block[2].startswith("$ ") else []:
            command, _, shown = part.partition("\n")
            printed = run(command, services)
            shown = shown.rstrip("\n")
            same = masked(shown) == masked(printed)
            parts.append("\n".join([f"$ {command}", *([text] if (text := shown if same else printed) else [])]) + "\n")
        return block[1] + "".join(parts) + block[3]

    services = _Services()
    with in_an_empty_folder():
        try:
            return BLOCK.sub(again, page)
        finally:
            services.close()


@contextmanager
def in_an_empty_folder() -> Iterator[None]:
    """Work in a new folder, with links to the repository's folders, without a home, on a terminal of 120 columns."""
    here = {"COLUMNS": "120", "XSCL_CLASS_ARCHIVE": "off"}
    with tempfile.TemporaryDirectory() as folder, chdir(folder), patch.dict(os.environ, here):
        os.environ.pop("XSCL_HOME", None)
        for name in ("docs", "xscl"):
            Path(folder, name).symlink_to(ROOT / name)
        yield


def main(arguments: list[str]) -> int:
    """Compare the given pages with what their commands print, or write it into them."""
    bad = 0
    for path in [Path(name) for name in arguments if name != "--write"]:
        page = path.read_text(encoding="utf-8")
        new = replayed(page)
        if new != page:
            bad += 1
            print(f"{path}: {'written' if '--write' in arguments else 'differs'}")
            if "--write" in arguments:
                path.write_text(new, encoding="utf-8")
    return 0 if "--write" in arguments else bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
