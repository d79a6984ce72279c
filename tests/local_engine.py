"""A twin of the engine without Spark: the same kernels, with the joins of ``xscl.templates.join`` as nested loops.

It exists so that thousands of random cases take seconds; a few large ones go through Spark (tests/spark).
"""

from __future__ import annotations

import operator as op
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from oracle.evaluate import Answer, Doc
from oracle.nodes import NAMESPACES

from xscl.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.parser import parse_query
from xscl.safexml import parse_xml, serialize
from xscl.templates.assemble import FOUND_SCHEMA, assembled_batches, extend_batches, start_batches
from xscl.templates.find import Finder
from xscl.templates.probe import CLOSE, PAIR, TINY, check_batches, probe_batches
from xscl.templates.program import LiveGroup, build_program, load_program, save_program
from xscl.templates.results import ResultColumns, origin_of
from xscl.templates.slices import SliceCache
from xscl.templates.worker import result_batches
from xscl.xpath.spec_files import SpecFiles
from xscl.xpath.witness import WITNESS_SCHEMA
from xscl.xpath.worker import witness_batches

_CHECKED = ("edge", *PAIR)
_MATCHED = (*_CHECKED, "n1", "n2", "c1", "c2", "v1", "v2")
_COMPARE = {"=": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}


@dataclass
class LocalEngine:
    """Queries are registered before all documents; ``run`` processes one batch after another."""

    folder: Path
    queries: Mapping[str, CompiledQuery]
    docs: list[Doc] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    witness: list[dict[str, object]] = field(default_factory=list)
    results: list[dict[str, object]] = field(default_factory=list)
    links: list[dict[str, object]] = field(default_factory=list)
    batches: int = 0

    def __post_init__(self) -> None:
        keys = sorted({c.group.instance.key for c in self.queries.values()})
        groups = sorted({c.group.key for c in self.queries.values()})
        self.gid = {name: groups.index(c.group.key) for name, c in self.queries.items()}
        self.iid = {name: keys.index(c.group.instance.key) for name, c in self.queries.items()}
        live = {
            self.gid[name]: LiveGroup(self.gid[name], self.iid[name], c.group, 0, 1 << 40, c.channels)
            for name, c in self.queries.items()
        }
        tag = abs(hash(tuple(groups)))
        self.program = str(self.folder / f"program-{tag}")
        save_program(build_program(live.values()), Path(self.program))
        specs = [spec for c in self.queries.values() for spec in c.specs]
        self.specs = str(SpecFiles(f"specs-{tag}").version(specs, self.folder))
        pickle.loads(Path(self.program).read_bytes())

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
                    "content": serialize(parse_xml(doc.xml)),
                }
            )
        if not rows:
            return
        fresh = pa.Table.from_batches(witness_batches(self.specs, pa.Table.from_pylist(rows).to_batches()))
        self.witness += fresh.to_pylist()
        self.batches += 1
        found = self._stage2(fresh, first)
        self.results += found
        self._assemble([row for row in found if row["relation"] == "link"])

    def _stage2(self, fresh: pa.Table, first: int) -> list[dict[str, object]]:
        probe = [row for b in probe_batches(self.program, fresh.to_batches()) for row in b.to_pylist()]
        matched = [_single(p) for p in probe if p["single"]]
        equal = [_equal(p, w) for p in probe for w in self.witness if _meets(p, w, first)]
        matched += [{name: row[name] for name in _MATCHED} for row in equal]
        matched += self._unequal([{name: row[name] for name in _CHECKED} for row in equal if row["checked"]])
        matched.sort(key=lambda row: (row["d1"], -1 if row["d2"] is None else row["d2"]))
        # Small Arrow batches, so that pairs run over from one into the next as they may on executors.
        table = pa.Table.from_pylist(matched, schema=_matched_schema())
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
        rows = [{name: row[name] for name in FOUND_SCHEMA.names} for row in found]
        rows.sort(key=lambda row: (row["assembly"], [m["docid"] for m in row["members"]]))
        table = pa.Table.from_pylist(rows, schema=FOUND_SCHEMA)
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

    def _unequal(self, pairs: list[dict[str, object]]) -> list[dict[str, object]]:
        if not pairs:
            return []
        found = []
        for batch in check_batches(self.program, pa.Table.from_pylist(pairs).to_batches()):
            for check in batch.to_pylist():
                left = [w for w in self.witness if _is(w, check["d1"], check["lvar"], check["lfn"])]
                right = [w for w in self.witness if _is(w, check["d2"], check["rvar"], check["rfn"])]
                for a in left:
                    for b in right:
                        close = _close(check, a, b)
                        if close or _holds(check, a, b):
                            nodes = {"n1": a["node"], "n2": b["node"], "c1": a["chain"], "c2": b["chain"]}
                            values = {"v1": a["strval"], "v2": b["strval"]} if close else {"v1": None, "v2": None}
                            found.append({**{name: check[name] for name in _CHECKED}, **nodes, **values})
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
        rows = [r for r in self.found("rout") if r["instance"] == self.iid[name]]
        return {(*(self.docs[d].id for d in r["docs"]), *r["nodes"]) for r in rows if self.gid[name] in r["groups"]}


@dataclass
class DriverEngine(LocalEngine):
    """The joins as the driver makes them, with a cache of any size; what is not in it is read from the witnesses."""

    cache_bytes: int = 1 << 30
    pair_limit: int = 1 << 40

    def __post_init__(self) -> None:
        super().__post_init__()
        self.finder = Finder(SliceCache(self.cache_bytes), lambda rows: self.pair_limit)
        self.held = WITNESS_SCHEMA.empty_table()

    def _stage2(self, fresh: pa.Table, first: int) -> list[dict[str, object]]:
        out = ResultColumns(origin_of(self.batches, 0))
        program = load_program(self.program)
        self.finder.process(program, fresh, self.batches, out, fetch=self._fetch, most_rows=1 << 40)
        self.held = pa.concat_tables([self.held, fresh.filter(pc.invert(fresh.column("late")))])
        self.finder.cache.shrink()
        return self._rows(out.take())

    def _fetch(self, wanted: npt.NDArray[np.int64], documents: bool) -> pa.Table:
        column = self.held.column("docid" if documents else "h")
        return self.held.filter(pc.is_in(column, pa.array(wanted)))


def compiled(text: str, channels: Mapping[str, ChannelFacts] | None = None) -> CompiledQuery:
    return compile_query(parse_query(text), text, namespaces={**NAMESPACES, "n": "urn:n"}, channels=channels)


def _single(p: dict[str, object]) -> dict[str, object]:
    return {
        "edge": p["edge"],
        "d1": p["docid"],
        "d2": None,
        "i1": p["item"],
        "i2": None,
        "t1": p["ts"],
        "t2": None,
        "p1": p["place"],
        "p2": None,
        "n1": p["node"],
        "n2": p["node"],
        "c1": p["chain"],
        "c2": p["chain"],
        "v1": None,
        "v2": None,
    }


def _meets(p: dict[str, object], w: dict[str, object], first: int) -> bool:
    key = ("h", "strval")
    if p["single"] or w["late"] or w["item"] == p["item"] or any(w[k] != p[k] for k in key):
        return False
    if (w["var"], w["fn"]) != (p["pvar"], p["pfn"]) or not (w["docid"] < first or p["new_left"]):
        return False
    difference = w["ts"] - p["ts"] if p["new_left"] else p["ts"] - w["ts"]
    return p["lo"] <= difference <= p["hi"]


def _equal(p: dict[str, object], w: dict[str, object]) -> dict[str, object]:
    a, b = (p, w) if p["new_left"] else (w, p)
    return {
        "edge": p["edge"],
        "checked": p["checked"],
        "d1": a["docid"],
        "d2": b["docid"],
        "i1": a["item"],
        "i2": b["item"],
        "t1": a["ts"],
        "t2": b["ts"],
        "p1": a["place"],
        "p2": b["place"],
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
        if link["link"] == row["link"] and link["members"][row["side"]]["docid"] == row["doc"]
    ]
    return found or [{**row, "link_members": None, "link_nodes": None, "fresh": None}]


def _met_schema() -> pa.Schema:
    from xscl.templates.assemble import REQUEST_SCHEMA

    more = {"link_members": "members", "link_nodes": "nodes"}
    fields = [REQUEST_SCHEMA.field(old).with_name(new) for new, old in more.items()]
    return pa.schema([*REQUEST_SCHEMA, *fields, pa.field("fresh", pa.bool_())])


def _is(w: dict[str, object], docid: object, var: object, fn: object) -> bool:
    return (w["docid"], w["var"], w["fn"]) == (docid, var, fn)


def _matched_schema() -> pa.Schema:
    from xscl.templates.probe import PROBE_SCHEMA

    chain = PROBE_SCHEMA.field("chain").type
    types = {"edge": pa.int32(), "n1": pa.int32(), "n2": pa.int32()}
    types |= dict.fromkeys(("p1", "p2", "v1", "v2"), pa.string())
    return pa.schema([(name, chain if name in ("c1", "c2") else types.get(name, pa.int64())) for name in _MATCHED])
