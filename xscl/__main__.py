"""``python -m xscl``."""

from xscl.cli import main

main()
