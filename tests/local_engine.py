"""The engine's kernels without Spark and without a home: runs meet runs, in one unit or in many.

It exists so that thousands of random cases take seconds; a few large ones go through Spark (tests/spark).
"""

from __future__ import annotations

import pickle
import random
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from oracle.evaluate import Answer, Doc
from oracle.nodes import NAMESPACES
from own_functions import DECLARED
from programs import build_program, save_program

from xscl.base.safe_xml import parse_xml, serialize
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query
from xscl.templates.joins.find import Finder
from xscl.templates.many_blocks.matches import Found, add_found, assemble, complete
from xscl.templates.many_blocks.runs import LinkRun, kept, merged_links
from xscl.templates.many_blocks.state import LinkState
from xscl.templates.members import NONE, Membership
from xscl.templates.origins import origin_of
from xscl.templates.plans import LiveGroup
from xscl.templates.program import Program
from xscl.templates.program_files import load_program
from xscl.templates.results import ResultColumns
from xscl.templates.retention import Floors, ReachBuilder, floors
from xscl.templates.runs.files import open_run, save_run
from xscl.templates.runs.merging import merged_run
from xscl.templates.runs.rows import rows_of_run
from xscl.templates.runs.run import Run
from xscl.xpath.fact_rows import FactVariables, with_facts
from xscl.xpath.spec_files import SpecFiles, load_automaton
from xscl.xpath.witness import witness_rows


@dataclass
class LocalEngine:
    """Queries are registered before all documents; ``run`` processes one batch after another."""

    folder: Path
    queries: Mapping[str, CompiledQuery]
    pair_limit: int = 1 << 40
    spare: int = 0
    """Pairs that are enumerated besides those of anchors."""
    hashes: int = 0
    """How many different hashes of values there are; 0: as many as there are."""
    docs: list[Doc] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    witness: list[dict[str, object]] = field(default_factory=list)
    """All witness rows that there were, also those that meet nothing."""
    runs: list[Run] = field(default_factory=list)
    links: list[LinkRun] = field(default_factory=list)
    results: list[dict[str, object]] = field(default_factory=list)
    lateness: Mapping[str, int] | None = None
    """Of each channel that has one, microseconds; None: nothing is purged."""
    clocks: Mapping[str, str] = field(default_factory=dict)
    """By channel; those that are not named share one."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Of each channel that has one, microseconds."""
    purged: int = 0
    """Witness rows and rows of links that are held no more."""
    batches: int = 0
    begun: int = 0
    """Number of the first document of the batch."""
    streams: Mapping[str, int] = field(default_factory=dict)
    """Numbers of streams by name."""

    def __post_init__(self) -> None:
        keys = sorted({c.group.instance.key for c in self.queries.values()})
        groups = sorted({c.group.key for c in self.queries.values()})
        self.gid = {name: groups.index(c.group.key) for name, c in self.queries.items()}
        self.iid = {name: keys.index(c.group.instance.key) for name, c in self.queries.items()}
        live = {
            self.gid[name]: LiveGroup(self.gid[name], self.iid[name], c.group, 0, 1 << 40, c.channels)
            for name, c in self.queries.items()
        }
        self.reach = ReachBuilder()
        tag = abs(hash(tuple(groups)))
        self.program = str(save_program(build_program(live.values()), self.folder))
        specs = [spec for c in self.queries.values() for spec in (*c.specs, *c.facts)]
        self.specs = str(SpecFiles(f"specs-{tag}").version(specs, self.folder))
        pickle.loads(Path(self.program).read_bytes())
        self.memberships: dict[Membership, int] = {}
        self.finder = self._new_finder()

    def run(self, batch: Sequence[Doc]) -> None:
        rows = []
        self.begun = len(self.docs)
        for doc in batch:
            docid = len(self.docs)
            known = [
                i for i, d in zip(self.items, self.docs, strict=True) if (d.channel, d.item) == (doc.channel, doc.item)
            ]
            item = known[0] if doc.item is not None and known else docid
            self.docs.append(doc)
            self.items.append(item)
            rows.append(
                {
                    "docid": docid,
                    "channel": doc.channel,
                    "id": doc.id,
                    "item": item,
                    "ts": doc.ts,
                    "late": doc.late,
                    "membership": self._membership(doc),
                    "content": serialize(parse_xml(doc.xml)),
                }
            )
        if not rows:
            return
        known = {number: membership for membership, number in self.memberships.items()}
        load_program(self.program).memberships.update(known)
        fresh = pa.Table.from_batches(
            witness_rows(load_automaton(str(self.specs)), *pa.Table.from_pylist(rows).to_batches())
        )
        self.witness += fresh.to_pylist()
        if self.hashes:
            few = pa.array(fresh.column("h").to_numpy() % self.hashes)
            fresh = fresh.set_column(fresh.schema.get_field_index("h"), "h", few)
        self.batches += 1
        guards = self.live_program.guards
        known = FactVariables(guards.facts_read, guards.rows_read)
        self._count()
        together = [rows for batch in fresh.to_batches() for rows in with_facts(batch, known)]
        self._join(pa.Table.from_batches(together, schema=fresh.schema))
        if self.lateness is not None:
            before = self.rows_held
            self._purge(self._floors(self.lateness))
            self.purged += before - self.rows_held

    def _count(self) -> None:
        """Tell the program which events came when, as row windows count them: all, or as few as they need."""
        ordinals, places = self.live_program.ordinals, {}
        for channel, count in ordinals.counts.items():
            of = [at for at, doc in enumerate(self.docs) if doc.channel == channel and doc.whole]
            before = [at for at in of if at < self.begun]
            places[channel] = np.array([*before[-count:], *(at for at in of if at >= self.begun)], np.int64)
        ordinals.take(places)

    def _newest(self) -> dict[tuple[str, int], int]:
        """The least time of newest events, by channel and how many they are."""
        found = {}
        for channel, count in self.live_program.ordinals.windows:
            times = [doc.ts for doc in self.docs if doc.channel == channel and doc.whole][-count:]
            if len(times) == count:
                found[channel, count] = min(times)
        return found

    def _join(self, fresh: pa.Table) -> None:
        """One unit: the new rows meet all that are held, and each other."""
        self.finder.take(self.live_program)
        out = ResultColumns(origin_of(self.batches, 0))
        new = self.finder.new_run(fresh, out)
        self.finder.meet(new, [(run, None) for run in self.runs], out, own=True)
        self._put_together(out)
        self.runs.append(new)
        self.results += self._rows(out.take())

    def _put_together(self, out: ResultColumns) -> None:
        if out.counts["link"]:
            new = LinkRun.of(out.take_links())
            assemble(self.live_program, LinkState((), None, self.links), [new], out)
            self.links.append(new)

    @property
    def live_program(self) -> Program:
        """The program of the batch that is under way."""
        return load_program(self.program)

    @property
    def rows_held(self) -> int:
        """Witness rows and rows of links."""
        return sum(rows_of_run(run, seen).num_rows for run, seen in self._visible()) + self.links_held

    @property
    def links_held(self) -> int:
        """Rows of links."""
        return sum(map(len, self.links))

    def _visible(self) -> Iterable[tuple[Run, np.ndarray | None]]:
        """Runs of the state, and their rows that are in sight; None: all."""
        return ((run, None) for run in self.runs)

    def _new_finder(self) -> Finder:
        return Finder(lambda rows: self.pair_limit, lambda rows: self.spare)

    def _membership(self, doc: Doc) -> int:
        """Its number."""
        membership = Membership(frozenset(self.streams[name] for name in doc.streams), doc.whole)
        if membership == NONE:
            return 0
        return self.memberships.setdefault(membership, len(self.memberships) + 1)

    def _floors(self, lateness: Mapping[str, int]) -> Floors:
        greatest: dict[str, int] = {}
        for doc in self.docs:
            clock = self.clocks.get(doc.channel, "")
            greatest[clock] = max(doc.ts, greatest.get(clock, doc.ts))
        marks = {}
        for channel, late in lateness.items():
            shown = [greatest[clock]] if (clock := self.clocks.get(channel, "")) in greatest else []
            if channel in self.idle and greatest:
                shown.append(max(greatest.values()) - self.idle[channel])
            if shown:
                marks[channel] = max(shown) - late
        return floors(self.reach.table(load_program(self.program), 0, self._newest()), marks)

    def _purge(self, rule: Floors) -> None:
        self.runs = [merged_run([run], [in_sight(run, rule)]) for run in self.runs]
        self.links = [merged_links([run], [kept(run, rule)]) for run in self.links]

    def documents_held(self) -> list[str]:
        """The ids of the documents in the state, in the order they came."""
        rows = (rows_of_run(run, seen) for run, seen in self._visible())
        held = {doc for table in rows for doc in table.column("docid").to_pylist()}
        return [doc.id for docid, doc in enumerate(self.docs) if docid in held]

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> list[dict[str, object]]:
        return [row for batch in batches for row in batch.to_pylist()]

    def found(self, relation: str) -> list[dict[str, object]]:
        """Rows of R_out, or matches, with ``docs`` in block order."""
        of_class: dict[tuple[object, object], list[list[int]]] = {}
        for row in self.results:
            if row["relation"] == "docs":
                docs = row["docs"] or [row[name] for name in ("d1", "d2") if row[name] is not None]
                of_class.setdefault((row["origin"], row["class"]), []).append(docs)
        rows = [row for row in self.results if row["relation"] == relation]
        return [{**row, "docs": docs} for row in rows for docs in of_class[row["origin"], row["class"]]]

    def answers(self, name: str) -> set[Answer]:
        """What a query answered, in the oracle's form; a match listed twice fails."""
        rows = [r for r in self.found("match") if r["instance"] == self.iid[name]]
        listed = []
        for row in rows:
            if self.gid[name] in row["groups"]:
                docs = [self.docs[d] for d in row["docs"]]
                listed.append((tuple((doc.channel, doc.id) for doc in docs), tuple(row["nodes"])))
        assert len(listed) == len(set(listed)), "a match was emitted twice"
        return set(listed)

    def rout(self, name: str) -> set[tuple[object, ...]]:
        """(doc ids…, nodes of the meta-variables…)."""
        rows = [r for r in self.found("rout") if r["instance"] == self.iid[name] and self.gid[name] in r["groups"]]
        found = [
            (*(self.docs[doc].id for doc in row["docs"]), *nodes)
            for row in rows
            for nodes in product(*(row["others"] or [[node] for node in row["nodes"]]))
        ]
        assert len(found) == len(set(found)), "a row of R_out was listed twice"
        return set(found)


@dataclass
class UnitsEngine(LocalEngine):
    """Pairs of runs as units of their own, as tasks do them: each with a new finder, on runs in files."""

    seed: int = 0
    """Decides how new documents are spread over runs, and which runs of the state are merged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._choose = random.Random(self.seed)
        self._rule: Floors | None = None

    def _join(self, fresh: pa.Table) -> None:
        docids = fresh.column("docid").to_numpy()
        parts = np.array([self._choose.randrange(3) for _ in range(len(self.docs))])[docids]
        new = []
        outs = []
        for part in np.unique(parts).tolist():
            finder = self._begun()
            out = ResultColumns(origin_of(self.batches, 0, len(outs)))
            new.append(self._file(finder.new_run(fresh.filter(pa.array(parts == part)), out)))
            outs.append(out)
        for number, run in enumerate(new):
            state = [(other, self._rule) for other in self.runs]
            units = [([(run, None)], True), *(([other], False) for other in state)]
            units += [([(other, None)], False) for other in new[number + 1 :]]
            for others, own in units:
                out = ResultColumns(origin_of(self.batches, 0, len(outs)))
                self._begun().meet(run, [] if own else others, out, own=own)
                outs.append(out)
        links = [out.take_links() for out in outs if out.counts["link"]]
        last = ResultColumns(origin_of(self.batches, 0, len(outs)))
        found = [LinkRun.of(rows) for rows in links]
        if found:
            state = LinkState(self.links, self._rule)
            shares = [complete(self.live_program, state, found, (number, 3)) for number in range(3)]
            for part in Found.together(shares).spread(2):
                add_found(self.live_program, part, state, last)
            self.links += found
        for out in (*outs, last):
            self.results += self._rows(out.take())
        self.runs += new
        if len(self.runs) > 1 and self._choose.random() < 0.5:
            some = self._choose.sample(self.runs, self._choose.randrange(1, len(self.runs)))
            kept = [None if self._rule is None else in_sight(run, self._rule) for run in some]
            self.runs = [run for run in self.runs if all(run is not one for one in some)]
            self.runs.append(self._file(merged_run(some, kept)))

    def _begun(self) -> Finder:
        finder = self._new_finder()
        finder.take(self.live_program)
        return finder

    def _file(self, run: Run) -> Run:
        path = self.folder / f"{uuid.uuid4().hex}.run"
        save_run(run, path)
        return open_run(str(path))

    @property
    def links_held(self) -> int:
        return sum(len(run) if self._rule is None else int(kept(run, self._rule).sum()) for run in self.links)

    def _visible(self) -> Iterable[tuple[Run, np.ndarray | None]]:
        return ((run, None if self._rule is None else in_sight(run, self._rule)) for run in self.runs)

    def _purge(self, rule: Floors) -> None:
        self._rule = rule


def in_sight(run: Run, rule: Floors) -> np.ndarray:
    """Which rows of a run the floors keep."""
    variables = np.array([var for var, _ in run.keys], dtype=np.int64)
    return rule.keep(variables[run.row_keys()], run.ts)


def compiled(text: str, channels: Mapping[str, ChannelFacts] | None = None) -> CompiledQuery:
    namespaces = {**NAMESPACES, "n": "urn:n", **DECLARED}
    return compile_query(parse_query(text), text, namespaces=namespaces, channels=channels)
