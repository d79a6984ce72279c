"""Telling the home's own channels of a batch, in the batch's transaction."""

from __future__ import annotations

from sqlalchemy.engine import Connection

from xscl.batches.attempt import Attempt
from xscl.batches.report import BatchReport
from xscl.catalog.home_channels import HOME_BATCHES, HOME_CHANNELS, HOME_REJECTED
from xscl.catalog.intake_order import read_repeated
from xscl.store.home_rows import tell_home

__all__ = ["tell_batch"]


def tell_batch(connection: Connection, batch: Attempt, report: BatchReport, now: int) -> None:
    """Append a row about a batch to ``xscl.batches``, and one for each refusal to ``xscl.rejected``.

    A batch of such rows alone adds none, or they would never end.  Batches that a repair runs again were told of.
    """
    span = batch.span
    others = span.channels.keys() - HOME_CHANNELS.keys()
    if not (others or span.waiting or span.replayed) or span.last <= read_repeated(connection):
        return
    row = {name: getattr(report, name) for name in HOME_CHANNELS[HOME_BATCHES] if name != "rejected"}
    refused = [{name: getattr(each, name) for name in HOME_CHANNELS[HOME_REJECTED]} for each in report.rejected]
    folder = batch.home.folder("events")
    told = [(HOME_BATCHES, [{**row, "rejected": len(refused)}]), (HOME_REJECTED, refused)]
    for number, (channel, rows) in enumerate(told):
        tell_home(connection, channel, rows, now, folder / f"{batch.tag}-home{number}.parquet")
