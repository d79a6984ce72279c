"""``python -m xscl``."""

from xscl.cli.app import main

main()
