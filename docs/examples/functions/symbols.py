"""Functions that the queries of docs/how-to/functions.md call."""

import re

import xscl

SYMBOLS = {"International Business Machines": "IBM", "Apple": "AAPL"}


@xscl.function(name="ticker")
def ticker(text: str) -> str | None:
    """Return the symbol of the first company that a text names."""
    return next((symbol for name, symbol in SYMBOLS.items() if name in text), None)


@xscl.function(returns="number")
def percent(text: str) -> float:
    """Return the percentage that a text names."""
    return float(re.search(r"(-?[0-9.]+) ?%", text)[1])
