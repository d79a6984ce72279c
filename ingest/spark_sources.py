"""Spark data sources ``xscl-xml`` (documents) and ``xscl-feed`` (feeds), for batches and streams.

Files are read by executors, so all of them must see the files under the same paths.  A stream takes files in the order
in which they last changed (``file_offsets``), once they have not changed for ``settleSeconds``; addresses are polled
by the driver into a spool folder, and read from there.  Between two offsets the same files are read again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from xscl.base.document_limits import Limits
from xscl.base.errors import SourceError
from xscl.base.types import now_micros
from xscl.base.version import VERSION
from xscl.ingest.addresses import normal_url, private_allowed
from xscl.ingest.archives import unreadable
from xscl.ingest.fetch import user_agent
from xscl.ingest.file_offsets import BEGIN, after, groups, listing
from xscl.ingest.frames import FEED_COLUMNS, MODES, XML_COLUMNS, Row, chosen, feed_rows, xml_rows
from xscl.ingest.opml import read_opml
from xscl.ingest.reading import Reading
from xscl.ingest.sources import read_paths
from xscl.ingest.spool import Wanted, fetch_all, poll_spool, read_answer, read_spooled

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["FeedSource", "XmlSource"]

_MOST = 10**12
"""Greatest number of bytes, nodes or files that an option may be."""
_LONGEST_S = 10**9
"""Greatest number of seconds that an option may be."""


_OPTIONS = ("channel", "mode", "maxBytes", "maxNodes", "maxFilesPerTrigger", "settleSeconds")
"""Options of both sources."""


class _Source(DataSource):
    """Common part of both sources: paths, mode, and how often there is something new."""

    columns: str
    known: tuple[str, ...]
    """Options, as users write them, besides those of both sources."""

    def check(self) -> None:
        """Refuse options that the source does not have.

        Raises:
            SourceError: ``XSCL_BAD_OPTION``.
        """
        known = ("path", *_OPTIONS, *self.known)
        small = {name.lower(): name for name in (*known, "paths")}
        for name in self.options:
            if name.lower() not in small:
                near = get_close_matches(name.lower(), small, 1)
                hint = f"did you mean {small[near[0]]}?" if near else f"options are {', '.join(known)}"
                raise SourceError("XSCL_BAD_OPTION", f"{self.name()} has no option {name!r}", hint=hint)

    def schema(self) -> str:
        """Return the columns as DDL."""
        return self.columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of batches."""
        return _Reader(self, schema.fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        """Make the reader of streams."""
        return _StreamReader(self, schema.fieldNames())

    @property
    def paths(self) -> list[str]:
        """Files and folders."""
        many = self.options.get("paths")
        return [_local(path) for path in (json.loads(many) if many else [self.options.get("path")]) if path]

    @property
    def urls(self) -> list[str]:
        """Addresses to poll."""
        return []

    @property
    def mode(self) -> str:
        """Return the name of the way to treat what cannot be taken."""
        mode = self.options.get("mode", "PERMISSIVE").upper()
        if mode not in MODES:
            raise SourceError("XSCL_BAD_OPTION", f"mode is one of {', '.join(MODES)}, not {mode}")
        return mode

    def number(self, name: str, least: int, most: int = _MOST) -> float | None:
        """Return an option that is a number."""
        text = self.options.get(name)
        try:
            value = None if text is None else float(text)
        except ValueError:
            value = -1
        if value is not None and not least <= value <= most:
            raise SourceError("XSCL_BAD_OPTION", f"{name} is a number from {least} to {most:,}, not {text!r}")
        return value

    def limits(self) -> Limits:
        """Return the limits of a document."""
        default = Limits()
        return Limits(
            max_bytes=int(self.number("maxBytes", 1) or default.max_bytes),
            max_nodes=int(self.number("maxNodes", 1) or default.max_nodes),
        )

    def rows(self, part: _Part) -> Iterator[Row]:
        """Return the rows of a part of the input."""
        raise NotImplementedError


class XmlSource(_Source):
    """Documents: ``spark.read.format("xscl-xml").option("split", "//item").load("folder")``.

    Options: ``channel`` (``documents``), ``split``, ``id``, ``ts``, ``mode``, ``maxBytes``,
    ``maxNodes``; of streams ``maxFilesPerTrigger``, ``settleSeconds`` (1).
    """

    columns = XML_COLUMNS
    known = ("split", "id", "ts")

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "xscl-xml"

    def rows(self, part: _Part) -> Iterator[Row]:
        """Return the documents of files; feeds are documents like others."""
        return xml_rows(read_paths(part.files, self.reading), self.limits())

    @cached_property
    def reading(self) -> Reading:
        """Return the options of reading files."""
        split, id_, ts = (self.options.get(name) for name in ("split", "id", "ts"))
        channel = self.options.get("channel", "documents")
        reading = Reading(channel, whole=True, limits=self.limits(), split=split, id=id_, ts=ts)
        if reading.no_paths is not None:
            raise reading.no_paths
        return reading


class FeedSource(_Source):
    """Entries of feeds: ``spark.read.format("xscl-feed").load("folder")``, or ``option("url", "https://…")``.

    Options: ``channel`` (``items``), ``url`` (several divided by white space), ``opml`` (a file), ``contact`` (for the
    User-Agent), ``allowPrivate`` (``false``), ``mode``; of streams ``maxFilesPerTrigger``, ``settleSeconds`` (1) and,
    with addresses, ``spool`` (a folder).
    """

    columns = FEED_COLUMNS
    known = ("url", "opml", "contact", "allowPrivate", "spool")

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "xscl-feed"

    @property
    def urls(self) -> list[str]:
        """Addresses to poll."""
        listed = self.options.get("opml")
        urls = self.options.get("url", "").split()
        if listed is not None:
            path = Path(_local(listed))
            try:
                data = path.read_bytes()
            except OSError as error:
                raise unreadable(str(path), error) from None
            urls += [outline.url for outline in read_opml(data, source=str(path))]
        return list(dict.fromkeys(map(normal_url, urls)))

    def fetch(self, wanted: Sequence[Wanted]) -> list[Any]:
        """Ask for feeds, politely."""
        allowed = private_allowed(self.options.get("allowPrivate", "false").lower() == "true")
        return fetch_all(wanted, agent=user_agent(VERSION, self.options.get("contact")), allow_private=allowed)

    def rows(self, part: _Part) -> Iterator[Row]:
        """Return the entries of the feeds in files, of spooled answers, or of addresses."""
        channel = self.options.get("channel", "items")
        if part.spooled:
            return feed_rows(read_spooled(part.files, channel))
        if part.urls:
            wanted = [Wanted(url) for url in part.urls]
            return feed_rows(
                record
                for one, fetched in zip(wanted, self.fetch(wanted), strict=True)
                for record in read_answer(
                    one.url,
                    fetched.answer.headers.get("content-type", ""),
                    fetched.body or b"",
                    channel,
                    None
                    if fetched.problem is None
                    else {"condition": fetched.problem.condition, "message": fetched.problem.message},
                )
            )
        return feed_rows(read_paths(part.files, Reading(channel=channel, limits=self.limits())))


@dataclass
class _Part(InputPartition):
    """Part of the input that one task reads."""

    files: list[str]
    urls: list[str]
    spooled: bool = False


def _tuples(source: _Source, names: Sequence[str], part: _Part) -> Iterator[tuple[object, ...]]:
    for row in chosen(source.rows(part), source.mode):
        yield tuple(row.get(name) for name in names)


class _Reader(DataSourceReader):
    """Files and addresses once."""

    def __init__(self, source: _Source, names: Sequence[str]) -> None:
        source.check()
        self._source = source
        self._names = names
        _ = source.mode

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files in groups of about equal size, and all addresses in one, so that hosts get their spacing."""
        paths, urls = self._source.paths, self._source.urls
        if not paths and not urls:
            raise SourceError("XSCL_BAD_OPTION", f"{self._source.name()} needs a path", hint="load('folder')")
        missing = [path for path in paths if not Path(path).exists()]
        # What is not there is said by whoever reads it.
        parts = [_Part(files, []) for files in [*groups(listing(paths)), *([path] for path in missing)]]
        return [*parts, *([_Part([], urls)] if urls else [])]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Return the rows of a part."""
        assert isinstance(partition, _Part)
        return _tuples(self._source, self._names, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Files as they come; with addresses, those of the spool folder."""

    def __init__(self, source: _Source, names: Sequence[str]) -> None:
        source.check()
        self._source = source
        self._names = names
        self._last: dict[str, str] | None = None
        self._urls = source.urls
        self._paths = source.paths
        _ = source.mode
        self._most = source.number("maxFilesPerTrigger", 1)
        settle = source.number("settleSeconds", 0, _LONGEST_S)
        self._settle_s = 1.0 if settle is None else settle
        if self._urls:
            if self._paths or not source.options.get("spool"):
                raise SourceError(
                    "XSCL_BAD_OPTION", "a stream of addresses takes no path and needs the option spool, a folder"
                )
            self._paths = [_local(source.options["spool"])]
        if not self._paths:
            raise SourceError("XSCL_BAD_OPTION", f"{source.name()} needs a path", hint="load('folder')")

    def initialOffset(self) -> dict[str, str]:  # noqa: N802 - pyspark's name
        """Return the place before all files."""
        return BEGIN

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - pyspark's name
        """Return the limit of ``maxFilesPerTrigger``, or none."""
        return ReadAllAvailable() if self._most is None else ReadMaxFiles(int(self._most))

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802 - pyspark's name
        """Return the place of the last file that has come since and may be taken now; ``start`` if there is none."""
        if self._last is None:
            self._poll()
        files = after(
            listing(self._paths),
            start,
            until=self._last,
            before_ns=self._settled_ns(),
            most=limit.max_files if isinstance(limit, ReadMaxFiles) else None,
        )
        return files[-1].offset() if files else start

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - pyspark's name
        """Take no more than what is there now."""
        self._poll()
        if self._urls and self._settle_s:
            # What was just fetched is complete.
            time.sleep(self._settle_s)
        files = after(listing(self._paths), BEGIN, before_ns=self._settled_ns())
        self._last = files[-1].offset() if files else BEGIN

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> Sequence[InputPartition]:
        """Return the files between two places, in groups of about equal size."""
        files = after(listing(self._paths), start, until=end)
        return [_Part(group, [], spooled=bool(self._urls)) for group in groups(files)]

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Return the rows of a part."""
        assert isinstance(partition, _Part)
        return _tuples(self._source, self._names, partition)

    def _settled_ns(self) -> int:
        return time.time_ns() - int(self._settle_s * 1e9) + 1

    def _poll(self) -> None:
        if self._urls:
            source = cast("FeedSource", self._source)
            poll_spool(Path(self._paths[0]), self._urls, source.fetch, now=now_micros())


def _local(path: str) -> str:
    """Return a path of this machine; Spark's may be addresses.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``: it is on another file system.
    """
    parts = urlsplit(path)
    if parts.scheme == "file":
        return unquote(parts.path)
    if "://" in path:
        raise SourceError(
            "XSCL_BAD_OPTION", f"{path} is not on this machine's file systems", hint="mount it, or load its documents"
        )
    return path
