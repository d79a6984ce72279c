"""Describe a bench and run it: prepare its cases, measure all variants of each, compare answers, round figures."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from xscl.bench.plot import Axes
from xscl.bench.report import Report, Row, Value, rounded_row
from xscl.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "Bench",
    "Case",
    "Lab",
    "Options",
    "Outcome",
    "Result",
    "Sizes",
    "Variant",
    "by_case",
    "by_step",
    "by_variant",
    "run_bench",
    "side_by_side",
    "size",
    "suffixed",
]

_JAVA_MEMORY = "4g"
_UNIT = re.compile(r"(_per_s|_per_batch|_jobs|_s)?$")


@dataclass(frozen=True, slots=True)
class Options:
    """Wishes of the command line; None leaves a size as the bench has it."""

    quick: bool = False
    queries: int | None = None
    items: int | None = None
    batch: int | None = None
    seed: int = 1
    workload: str = "two-level"
    windows: str = "unbounded"


def size(full: Any, quick: Any = None, option: str | None = None) -> Any:
    """Declare a size: in full, with ``--quick`` (None: the same), and the option that sets it, if not its own name.

    A tuple has growing numbers; the option sets the greatest.
    """
    return field(default=full, metadata={"quick": full if quick is None else quick, "option": option})


@dataclass(frozen=True, slots=True)
class Sizes:
    """Base of a bench's sizes, whose fields are each declared with ``size``."""

    def asked(self, options: Options) -> Self:
        """Return the sizes for these options."""
        changed: dict[str, Any] = {}
        for each in fields(self):
            number = each.metadata["quick"] if options.quick else getattr(self, each.name)
            wish = getattr(options, each.metadata["option"] or each.name, None)
            if wish is not None:
                number = (*(n for n in number if n < wish), wish) if isinstance(number, tuple) else wish
            changed[each.name] = number
        return replace(self, **changed)


S = TypeVar("S", bound=Sizes)
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class Lab(Generic[S]):
    """Sizes and place of one run of a bench."""

    sizes: S
    options: Options
    folder: Path
    """A temporary folder, removed after the run."""
    say: Callable[[str], None]

    @property
    def seed(self) -> int:
        """Seed of everything random."""
        return self.options.seed

    @property
    def spark(self) -> SparkSession:
        """Session of all engines, started when first asked for."""
        # Baselines hold all relations of a home in Java.
        os.environ.setdefault("SPARK_DRIVER_MEMORY", _JAVA_MEMORY)
        return start_session()

    def new_folder(self) -> Path:
        """Make an empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))


@dataclass(frozen=True, slots=True)
class Case(Generic[D]):
    """Data from which every variant starts: queries, documents, a home."""

    name: str
    data: D
    figures: Row = field(default_factory=dict)
    """Figures that all variants share."""
    home: Path | None = None
    """Home that variants copy (``on_copy``), and that nobody has open meanwhile."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures and answers of one variant of one case."""

    figures: Row
    """Names are without the variant's suffix."""
    rows: Sequence[Row] = ()
    """One row a step, where the variant has steps."""
    digest: str | None = None
    """Digest of the answers.  All variants of a case must have the same.  None: answers are not compared."""
    agrees: bool | None = None
    """Verdict on baselines that were measured beside it: they gave its answers.  None: there are no baselines."""


@dataclass(frozen=True, slots=True)
class Variant(Generic[S, D]):
    """One way to do the work of a case."""

    name: str
    measure: Callable[[Lab[S], Case[D]], Outcome]
    suffix: str = ""
    """Part of its figures' names, before the unit."""


@dataclass(frozen=True, slots=True)
class Result(Generic[D]):
    """Outcomes of all variants of a case."""

    case: Case[D]
    outcomes: Mapping[str, Outcome]
    """Outcomes by the name of the variant."""
    suffixes: Mapping[str, str]
    """Suffix of each variant."""
    figures: Row
    """Figures of the case and of all variants, ``results_digest`` and ``digest_equal``."""


def last_figures(_: Any, results: Sequence[Result[Any]]) -> Row:
    """Return the figures of the last case: the one with the greatest numbers."""
    return results[-1].figures


@dataclass(frozen=True, slots=True)
class Bench(Generic[S, D]):
    """Everything the runner has to know of a bench."""

    name: str
    sizes: S
    prepare: Callable[[Lab[S]], Iterator[Case[D]]]
    """Yield one case after another; each is measured before the next is prepared."""
    variants: Sequence[Variant[S, D]]
    table: Callable[[Sequence[Result[D]]], list[Row]]
    """Layout of the table: ``by_case``, ``by_variant``, ``by_step``, ``side_by_side``."""
    axes: Axes
    """Plot of the table.  Its title, and ``notes``, are formatted with the sizes as ``s``."""
    beside: tuple[Axes, ...] = ()
    """Other plots of the table, which are drawn beside it."""
    figures: Callable[[S, Sequence[Result[D]]], Row] = last_figures
    notes: tuple[str, ...] = ()
    spark: bool = True
    """True where Java is part of the machine that is measured."""
    settings: tuple[str, ...] = ("seed",)
    """Options that are no sizes."""


def run_bench(bench: Bench[S, D], options: Options, say: Callable[[str], None]) -> Report:
    """Run a bench.

    Raises:
        EngineError: a query or a document of the workload was refused, or a measured process failed.
    """
    sizes = bench.sizes.asked(options)
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        lab = Lab(sizes, options, Path(folder), say)
        results = [_result(bench, lab, case) for case in bench.prepare(lab)]
    rows = bench.table(results)
    columns = dict.fromkeys(name for row in rows for name in row)
    table = [rounded_row({name: row.get(name) for name in columns}) for row in rows]
    figures = dict(bench.figures(sizes, results))
    compared = [result.figures["digest_equal"] for result in results if "digest_equal" in result.figures]
    if compared:
        figures["digest_equal"] = all(compared)
    return Report(
        bench=bench.name,
        settings={**_settings(asdict(sizes)), **{name: getattr(options, name) for name in bench.settings}},
        figures=rounded_row(figures),
        table=tuple(table),
        plots=tuple(each.plot(each.title.format(s=sizes), table) for each in (bench.axes, *bench.beside)),
        notes=tuple(note.format(s=sizes) for note in bench.notes),
        spark=bench.spark,
    )


def _result(bench: Bench[S, D], lab: Lab[S], case: Case[D]) -> Result[D]:
    """Measure all variants of a case."""
    outcomes: dict[str, Outcome] = {}
    figures = dict(case.figures)
    for variant in bench.variants:
        lab.say(": ".join(filter(None, (case.name, variant.name))))
        outcome = outcomes[variant.name] = variant.measure(lab, case)
        figures |= {suffixed(name, variant.suffix): value for name, value in outcome.figures.items()}
    digests = [outcome.digest for outcome in outcomes.values() if outcome.digest is not None]
    verdicts = [outcome.agrees for outcome in outcomes.values() if outcome.agrees is not None]
    if digests:
        figures["results_digest"] = digests[-1]
    if digests or verdicts:
        figures["digest_equal"] = len(set(digests)) <= 1 and all(verdicts)
    return Result(case, outcomes, {variant.name: variant.suffix for variant in bench.variants}, figures)


def by_case(results: Sequence[Result[Any]]) -> list[Row]:
    """Make a row of each case: its figures."""
    return [result.figures for result in results]


def by_variant(results: Sequence[Result[Any]]) -> list[Row]:
    """Make a row of each variant of each case; ``mode`` is the variant's name."""
    return [
        {**result.case.figures, "mode": variant, **outcome.figures}
        for result in results
        for variant, outcome in result.outcomes.items()
    ]


def by_step(results: Sequence[Result[Any]]) -> list[Row]:
    """Make a row of each step of each variant."""
    return [row for result in results for outcome in result.outcomes.values() for row in outcome.rows]


def side_by_side(results: Sequence[Result[Any]]) -> list[Row]:
    """Make a row of each step, for all variants; columns have their suffixes, but for ``batch`` and ``items``."""
    return [
        {
            name if name in ("batch", "items") else suffixed(name, suffix): value
            for suffix, row in zip(result.suffixes.values(), step, strict=True)
            for name, value in row.items()
        }
        for result in results
        for step in zip(*(outcome.rows for outcome in result.outcomes.values()), strict=True)
    ]


def suffixed(name: str, suffix: str) -> str:
    """Return a figure's name with a variant's suffix before the unit.

    >>> suffixed("p50_s", "_spark"), suffixed("jobs", "_spark")
    ('p50_spark_s', 'jobs_spark')
    """
    return _UNIT.sub(rf"{suffix}\1", name, count=1)


def _settings(sizes: Mapping[str, Any]) -> dict[str, Value]:
    """Write growing numbers as text, and the sizes within a size beside the others."""
    told: dict[str, Value] = {}
    for name, size in sizes.items():
        if isinstance(size, Mapping):
            told |= _settings(size)
        else:
            told[name] = ", ".join(map(str, size)) if isinstance(size, tuple) else size
    return told
