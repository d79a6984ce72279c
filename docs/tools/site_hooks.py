"""Hooks of the site's build: the page of the command line is written from the commands themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from commands import commands_text  # noqa: E402

PLACE = "<!-- commands -->"
"""Line of reference/cli.md that the commands replace."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the commands into their page; leave all other pages as they are."""
    return markdown.replace(PLACE, commands_text()) if page.file.src_uri == "reference/cli.md" else markdown
