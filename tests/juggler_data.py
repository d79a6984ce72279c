"""Events and states of the examples of Juggler, which several tests share."""

from __future__ import annotations

from oracle.evaluate import Doc

S = 1_000_000
TICKS = [
    Doc("ticks", str(ts), ts * S, f"<ticks><sym>{symbol}</sym><price>{price}</price></ticks>")
    for ts, symbol, price in [
        (1, "IBM", 100),
        (2, "MSFT", 50),
        (3, "IBM", 103),
        (4, "MSFT", 51),
        (6, "IBM", 104),
        (7, "IBM", 99),
        (9, "MSFT", 52),
        (10, "IBM", 106),
        (13, "IBM", 110),
    ]
]

G3_STATE = (
    "b1 h1 k1",
    "b1 b2 b3 t1 h1 h2 k1",
    "b1 b2 b3 b4 t1 t2 h1 h2 h3 k1 k2",
    "b2 b3 b4 b5 t1 t2 t3 h2 h3 h4 k2",
    "b4 b5 t2 t3 t4 h3 h4 h5 k3",
)
"""The documents held after each batch, by the rule per stream; their numbers are 3, 7, 11, 11 and 9."""
