"""What a batch costs by stage, in one run: ``python tests/bench/batch_cost.py``.

With one query of two blocks, with a thousand, and with one of three blocks.

Synthetic feed items of about 600 bytes; medians of five batches after two that warm the JVM up.
"""

from __future__ import annotations

import random
import statistics
import tempfile

import xscl
from xscl.batches.report import BatchReport

FIELDS = ("item_url", "title", "description", "channel_url")


def item(number: int, generator: random.Random) -> xscl.Event:
    channel = generator.randrange(418)
    title = " ".join(f"w{generator.randrange(20_000)}" for _ in range(4))
    if generator.random() < 0.1:
        title = f"shared title {generator.randrange(2_000)}"
    text = " ".join(f"w{generator.randrange(20_000)}" for _ in range(50))
    return xscl.Event(
        "items",
        f"i{number}",
        1_150_000_000 + 10 * number,
        xml=f"<item><item_url>http://h{channel}.org/{number}</item_url><channel_url>http://h{channel}.org/feed"
        f"</channel_url><title>{title}</title><description>{text}</description></item>",
    )


def query(number: int, generator: random.Random) -> tuple[str, str]:
    field = generator.choice(FIELDS[:3])
    left, right = ("".join(f"[./{name}->{side}{name}]" for name in FIELDS) for side in "xy")
    atoms = f"x{field} = y{field}" + generator.choice(["", " AND xchannel_url != ychannel_url"])
    hours = generator.randrange(1, 1000)
    return f"Q{number}", f"items->p{left} FOLLOWED BY {{{atoms}, {hours} h}} items->q{right}"


THREE_BLOCKS = (
    "items->p[./title->a] FOLLOWED BY {a = b, 3 h} items->q[./title->b][./channel_url->c] "
    "JOIN {c = d AND a = e, 3 h} items->r[./channel_url->d][./title->e]"
)


def measure(queries: list[tuple[str, str]]) -> dict[int, list[BatchReport]]:
    generator = random.Random(1)
    found: dict[int, list[BatchReport]] = {}
    with tempfile.TemporaryDirectory() as home, xscl.connect(home=home) as engine:
        assert all(outcome.ok for outcome in engine.register_many(queries))
        number = 0
        for size in (10, 5_000):
            for _ in range(7):
                engine.ingest([item(number + n, generator) for n in range(size)])
                number += size
                found.setdefault(size, []).extend(engine.run_once())
    return {size: reports[2:] for size, reports in found.items()}


def main() -> None:
    generator = random.Random(1)
    workloads = {
        "one": [query(0, generator)],
        "thousand": [query(n, generator) for n in range(1_000)],
        "three blocks": [("three", THREE_BLOCKS)],
    }
    print("queries       items  stage1_s  join_s  whole_s  jobs  candidate_pairs")
    whole: dict[tuple[str, int], float] = {}
    for queries, texts in workloads.items():
        for size, reports in measure(texts).items():
            stage1 = statistics.median(r.stage1_s for r in reports)
            join = statistics.median(r.join_s for r in reports)
            total = statistics.median(r.prepare_s + r.stage1_s + r.join_s + r.commit_s for r in reports)
            pairs = statistics.median(r.pairs for r in reports)
            whole[queries, size] = total
            jobs = {r.jobs for r in reports}
            print(f"{queries:12}  {size:5}  {stage1:8.2f}  {join:6.2f}  {total:7.2f}  {jobs}  {pairs:15.0f}")
    for size in (10, 5_000):
        for queries in ("thousand", "three blocks"):
            print(f"{queries}: {whole[queries, size] / whole['one', size]:.2f} times one query, batches of {size}")


if __name__ == "__main__":
    main()
