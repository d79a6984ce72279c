"""The demonstration on bundled real feeds."""
