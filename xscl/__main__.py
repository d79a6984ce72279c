"""``python -m xscl``."""

from xscl.cli.app import start

start()
