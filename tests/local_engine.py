"""A twin of the engine without Spark: the same kernels, with the joins of ``xscl.templates.join`` as nested loops.

It exists so that thousands of random cases take seconds; a few large ones go through Spark (tests/spark).
"""

from __future__ import annotations

import operator as op
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from oracle.evaluate import Answer, Doc
from oracle.nodes import NAMESPACES
from programs import build_program, save_program

from xscl.base.safe_xml import parse_xml, serialize
from xscl.language.compile import CompiledQuery, compile_query
from xscl.language.facts import ChannelFacts
from xscl.language.parser import parse_query
from xscl.templates.assemble import assemble
from xscl.templates.assembly_tasks import ASSEMBLED_SCHEMA, assembled_batches, extend_batches, start_batches
from xscl.templates.find import Finder
from xscl.templates.link_rows import LinkRows
from xscl.templates.members import NONE, Membership
from xscl.templates.order import join_order
from xscl.templates.plans import LiveGroup
from xscl.templates.probe import CLOSE, MATCHED_SCHEMA, TINY, asked_batches, probe_batches, single_batches
from xscl.templates.program import Program
from xscl.templates.program_files import load_program
from xscl.templates.results import ResultColumns, origin_of
from xscl.templates.retention import Floors, ReachBuilder, floors
from xscl.templates.slices import SliceCache
from xscl.templates.value_counts import counted, partners_of
from xscl.templates.worker import result_batches
from xscl.xpath.spec_files import SpecFiles, load_automaton
from xscl.xpath.witness import witness_rows
from xscl.xpath.witness_columns import WITNESS_SCHEMA

_MATCHED = MATCHED_SCHEMA.names
_COMPARE = {"=": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


@dataclass
class LocalEngine:
    """Queries are registered before all documents; ``run`` processes one batch after another."""

    folder: Path
    queries: Mapping[str, CompiledQuery]
    unselective: int = 0
    """Bit n says that edge n (modulo 64) has many pairs: how many each is told to have does not change any answer."""
    docs: list[Doc] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    witness: list[dict[str, object]] = field(default_factory=list)
    results: list[dict[str, object]] = field(default_factory=list)
    links: list[dict[str, object]] = field(default_factory=list)
    lateness: Mapping[str, int] | None = None
    """Of each channel that has one, microseconds; None: nothing is purged."""
    clocks: Mapping[str, str] = field(default_factory=dict)
    """By channel; those that are not named share one."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Of each channel that has one, microseconds."""
    purged: int = 0
    """Witness rows and rows of links that are held no more."""
    batches: int = 0
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
        specs = [spec for c in self.queries.values() for spec in c.specs]
        self.specs = str(SpecFiles(f"specs-{tag}").version(specs, self.folder))
        pickle.loads(Path(self.program).read_bytes())
        self.memberships: dict[Membership, int] = {}

    def run(self, batch: Sequence[Doc]) -> None:
        first = len(self.docs)
        rows = []
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
        self.batches += 1
        found = self._stage2(fresh, first)
        self.results += found
        self._assemble([row for row in found if row["relation"] == "link"])
        if self.lateness is not None:
            before = len(self.witness) + len(self.links)
            self._purge(self._floors(self.lateness))
            self.purged += before - len(self.witness) - len(self.links)

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
        return floors(self.reach.table(load_program(self.program), 0), marks)

    def _purge(self, rule: Floors) -> None:
        kept = rule.keep(*(np.array([row[name] for row in self.witness], np.int64) for name in ("var", "ts")))
        self.witness = [row for row, keep in zip(self.witness, kept, strict=True) if keep and not row["late"]]
        times = [[row["members"][side]["ts"] for row in self.links] for side in (0, 1)]  # type: ignore[index]
        columns = [row["link"] for row in self.links], *times
        kept = rule.keep_links(*(np.array(column, np.int64) for column in columns))
        self.links = [row for row, keep in zip(self.links, kept, strict=True) if keep]

    def documents_held(self) -> list[str]:
        """The ids of the documents in the state, in the order they came."""
        held = {row["docid"] for row in self.witness}
        return [doc.id for docid, doc in enumerate(self.docs) if docid in held]

    def _stage2(self, fresh: pa.Table, first: int) -> list[dict[str, object]]:
        program = load_program(self.program)
        many = {edge for edge in program.edges if self.unselective >> edge % 64 & 1}
        told = {edge: hash((edge, self.unselective)) % 100 + (1000 if edge in many else 0) for edge in program.edges}
        order = join_order(program, told, spare=100)
        batches = fresh.to_batches()
        counts = [
            counted(pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA))
            for rows in (fresh.to_pylist(), self.witness[: -fresh.num_rows or None])
        ]
        partners = partners_of(counts[0], counts[1:])
        probe = [row for b in probe_batches(self.program, order, partners, batches) for row in b.to_pylist()]
        equal = [_equal(p, w) for p in probe for w in self.witness if _meets(p, w, first)]
        equal.sort(key=_pair)
        equal_table = pa.Table.from_pylist(equal, schema=MATCHED_SCHEMA)
        asked = asked_batches(self.program, order, equal_table.to_batches(max_chunksize=3))
        matched = [found for b in asked for row in b.to_pylist() for found in self._verified(row)]
        matched += [row for b in single_batches(self.program, fresh.to_batches()) for row in b.to_pylist()]
        matched.sort(key=_pair)
        # Small Arrow batches, so that pairs run over from one into the next as they may on executors.
        table = pa.Table.from_pylist(matched, schema=MATCHED_SCHEMA)
        return self._rows(result_batches(self.program, table.to_batches(max_chunksize=3), origin_of(self.batches, 0)))

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> list[dict[str, object]]:
        return [row for batch in batches for row in batch.to_pylist()]

    def _assemble(self, new: list[dict[str, object]]) -> None:
        links = [{**row, "fresh": False} for row in self.links] + [{**row, "fresh": True} for row in new]
        self.links += new
        if not new:
            return
        start = pa.Table.from_pylist(new).to_batches()
        found = [row for b in start_batches(self.program, start) for row in b.to_pylist()]
        for _ in range(load_program(self.program).rounds):
            met = [joined for row in found for joined in _met(row, links)]
            table = pa.Table.from_pylist(met, schema=_met_schema())
            found = [row for b in extend_batches(self.program, table.to_batches()) for row in b.to_pylist()]
        rows = [{name: row[name] for name in ASSEMBLED_SCHEMA.names} for row in found]
        rows.sort(
            key=lambda row: (
                sorted(m["place"] for m in row["members"]),
                row["assembly"],
                [m["docid"] for m in row["members"]],
            )
        )
        table = pa.Table.from_pylist(rows, schema=ASSEMBLED_SCHEMA)
        origin = origin_of(self.batches, 0, 1)
        self.results += self._rows(assembled_batches(self.program, table.to_batches(max_chunksize=3), origin))

    def found(self, relation: str) -> list[dict[str, object]]:
        """Rows of R_out, or matches, with ``docs`` in block order."""
        of_class: dict[tuple[object, object], list[list[int]]] = {}
        for row in self.results:
            if row["relation"] == "docs":
                docs = row["docs"] or [row[name] for name in ("d1", "d2") if row[name] is not None]
                of_class.setdefault((row["origin"], row["class"]), []).append(docs)
        rows = [row for row in self.results if row["relation"] == relation]
        return [{**row, "docs": docs} for row in rows for docs in of_class[row["origin"], row["class"]]]

    def _verified(self, row: dict[str, object]) -> list[dict[str, object]]:
        """A matched edge itself; the rows of an edge that is to be verified on a pair."""
        if row["verified"] is None:
            return [{name: row[name] for name in _MATCHED}]
        found = []
        for a in (w for w in self.witness if _is(w, row["d1"], row["lvar"], row["lfn"])):
            for b in (w for w in self.witness if _is(w, row["d2"], row["rvar"], row["rfn"])):
                close = _close(row, a, b)
                if close or _holds(row, a, b):
                    nodes = {"n1": a["node"], "n2": b["node"], "c1": a["chain"], "c2": b["chain"]}
                    values = {"v1": a["strval"], "v2": b["strval"]} if close else {"v1": None, "v2": None}
                    found.append({name: row[name] for name in _MATCHED} | {"edge": row["verified"], **nodes, **values})
        return found

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
class DriverEngine(LocalEngine):
    """The joins as the driver makes them, with a cache of any size; what is not in it is read from the witnesses."""

    cache_bytes: int = 1 << 30
    pair_limit: int = 1 << 40
    spare: int = 0
    """Pairs that are enumerated besides those of anchors."""
    hashes: int = 0
    """How many different hashes of values there are; 0: as many as there are."""
    forgetful: bool = False
    """Read the state anew for each batch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.held = WITNESS_SCHEMA.empty_table()
        self.link_rows = LinkRows()
        self._load()

    def _load(self) -> None:
        cache = SliceCache(self.cache_bytes)
        cache.load((self.held.slice(start, 7) for start in range(0, self.held.num_rows, 7)), self.batches)
        self.finder = Finder(cache, lambda rows: self.pair_limit, lambda rows: self.spare)

    def _stage2(self, fresh: pa.Table, first: int) -> list[dict[str, object]]:
        if self.hashes:
            few = pa.array(fresh.column("h").to_numpy() % self.hashes)
            fresh = fresh.set_column(fresh.schema.get_field_index("h"), "h", few)
        if self.forgetful:
            self._load()
        out = ResultColumns(origin_of(self.batches, 0))
        program = self.live_program
        self.finder.process(program, fresh, self.batches, out, fetch=self._fetch, most_rows=1 << 40)
        if out.counts["link"]:
            assemble(program, self.link_rows, out.link_rows(), self.batches, out)
        self.held = pa.concat_tables([self.held, fresh.filter(pc.invert(fresh.column("late")))])
        self.finder.cache.shrink()
        return self._rows(out.take())

    @property
    def live_program(self) -> Program:
        """The program of the batch that is under way."""
        return load_program(self.program)

    def _assemble(self, new: list[dict[str, object]]) -> None:
        self.links += new

    def _purge(self, rule: Floors) -> None:
        super()._purge(rule)
        self.finder.cache.purge(rule.keep)
        self.link_rows.purge(rule.keep_links)
        kept = rule.keep(*(self.held.column(name).to_numpy() for name in ("var", "ts")))
        self.held = self.held.filter(pa.array(kept))

    def _fetch(self, wanted: npt.NDArray[np.int64], documents: bool) -> pa.Table:
        column = self.held.column("docid" if documents else "h")
        return self.held.filter(pc.is_in(column, pa.array(wanted)))


def compiled(text: str, channels: Mapping[str, ChannelFacts] | None = None) -> CompiledQuery:
    return compile_query(parse_query(text), text, namespaces={**NAMESPACES, "n": "urn:n"}, channels=channels)


def _pair(row: dict[str, object]) -> tuple[int, int]:
    return row["d1"], -1 if row["d2"] is None else row["d2"]


def _meets(p: dict[str, object], w: dict[str, object], first: int) -> bool:
    key = ("h", "strval")
    if w["late"] or w["item"] == p["item"] or any(w[k] != p[k] for k in key):
        return False
    if (w["var"], w["fn"]) != (p["pvar"], p["pfn"]) or not (w["docid"] < first or p["new_left"]):
        return False
    difference = w["ts"] - p["ts"] if p["new_left"] else p["ts"] - w["ts"]
    return p["lo"] <= difference <= p["hi"]


def _equal(p: dict[str, object], w: dict[str, object]) -> dict[str, object]:
    a, b = (p, w) if p["new_left"] else (w, p)
    return {
        "edge": p["edge"],
        "d1": a["docid"],
        "d2": b["docid"],
        "i1": a["item"],
        "i2": b["item"],
        "t1": a["ts"],
        "t2": b["ts"],
        "p1": a["place"],
        "p2": b["place"],
        "m1": a["membership"] or 0,
        "m2": b["membership"] or 0,
        "n1": a["node"],
        "n2": b["node"],
        "c1": a["chain"],
        "c2": b["chain"],
        "v1": None,
        "v2": None,
    }


def _holds(check: dict[str, object], a: dict[str, object], b: dict[str, object]) -> bool:
    if check["numbers"]:
        return bool(_COMPARE[check["op"]](a["num"], check["f"] * b["num"] + check["add"]))
    return bool(_COMPARE[check["op"]](a["strval"], b["strval"]))


def _close(check: dict[str, object], a: dict[str, object], b: dict[str, object]) -> bool:
    if not check["numbers"]:
        return False
    if a["num"] is None or b["num"] is None:
        return True
    number, scaled = abs(a["num"]), abs(check["f"] * b["num"])
    difference = abs(a["num"] - (check["f"] * b["num"] + check["add"]))
    return bool(
        difference <= CLOSE * (number + scaled + abs(check["add"])) or min(number, abs(b["num"]), scaled) < TINY
    )


def _met(row: dict[str, object], links: list[dict[str, object]]) -> list[dict[str, object]]:
    """The left outer join of a request with the rows of links."""
    found = [
        {**row, "link_members": link["members"], "link_nodes": link["nodes"], "fresh": link["fresh"]}
        for link in links
        if link["link"] == row["link"]
        and link["members"][row["side"]]["place"] == row["place"]
        and row["other"] in (None, link["members"][1 - row["side"]]["place"])
    ]
    return found or [{**row, "link_members": None, "link_nodes": None, "fresh": None}]


def _met_schema() -> pa.Schema:
    from xscl.templates.assembly_tasks import REQUEST_SCHEMA

    more = {"link_members": "members", "link_nodes": "nodes"}
    fields = [REQUEST_SCHEMA.field(old).with_name(new) for new, old in more.items()]
    return pa.schema([*REQUEST_SCHEMA, *fields, pa.field("fresh", pa.bool_())])


def _is(w: dict[str, object], docid: object, var: object, fn: object) -> bool:
    return (w["docid"], w["var"], w["fn"]) == (docid, var, fn)
