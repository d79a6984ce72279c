"""The catalogue on PostgreSQL: a server of the tests' own, from whatever package is installed here."""

from __future__ import annotations

import io
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import sample_home
import sqlalchemy as sa
from catalog_plans import DELIBERATE, ON_POSTGRES, add_rows, bad_plans, executed, postgres_scans
from hook_server import hook_server
from waiting import wait_for

from xscl.answers.channel_listing import channel_rows
from xscl.answers.deliveries import add_files, add_webhook, delivery_rows, send_again
from xscl.answers.matches.listing import list_matches
from xscl.base.errors import CatalogError
from xscl.base.failpoints import hooked
from xscl.base.types import Event
from xscl.catalog.catalog import Catalog, open_catalog
from xscl.catalog.deliveries import drop_delivery
from xscl.catalog.groups import owner_use, read_rt_rows, read_template_use
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.queries import read_queries, read_query
from xscl.catalog.tables import EVENT_IDS, HOME, QUERIES
from xscl.catalog.tokens import add_token, list_tokens, read_limits, read_token, revoke_token, set_limits
from xscl.engine import Engine
from xscl.ingest.fetch import FetchLimits
from xscl.intake.intake import Intake
from xscl.planning.planner import Planner
from xscl.registry.channels import add_channel
from xscl.registry.query_list import QueryFilter, count_queries, list_queries
from xscl.registry.registry import Registry
from xscl.service.delivering.deliverer import Deliverer
from xscl.service.delivering.sending import DeliverySettings
from xscl.service.delivering.webhooks import Retries
from xscl.store.home import init_home, open_home
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home
from xscl.upkeep.health import examine_home
from xscl.upkeep.repair import repair_home

pytestmark = pytest.mark.postgres

TEXTS = (
    "S//book->x[./author->a][./title->t] FOLLOWED BY {a=b AND t=u, 7 days} S//blog->y[./author->b][./title->u]",
    "S//book->x1[./author->x2] FOLLOWED BY {x2=x5, 7 days} S//blog->x4[./author->x5]",
    "S//book->b[./author->a] FOLLOWED BY {a=c, 168 h} S//blog->d[./author->c]",
    "ticks[./price->p] JOIN {p = q AND p != r, ONCE} ticks[./size->q][./open->r]",
    "S//a[. = 'ä%_''x'] PUBLISH out",
    "S//a[. = '\0']",
    "out//a STARTING ALL",
    "out//a PUBLISH S",
)


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    if initdb is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt install postgresql)")
    return Path(initdb).parent


def _unprivileged() -> dict[str, int]:
    """PostgreSQL does not run for root: the user that its processes get instead."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid}
    pytest.skip("PostgreSQL does not run for root, and there is neither a user postgres nor nobody")


@dataclass
class Server:
    """One on this machine, with a database 'postgres'."""

    command: list[object]
    options: dict[str, object]
    log: Path
    url: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("w") as out:
            self.process = process = subprocess.Popen(self.command, stdout=out, stderr=out, **self.options)  # type: ignore[call-overload]
        engine = sa.create_engine(self.url)
        for _ in range(1_200):
            try:
                engine.connect().close()
            except sa.exc.OperationalError:
                assert process.poll() is None, self.log.read_text()
                time.sleep(0.1)
            else:
                engine.dispose()
                return
        pytest.fail(f"the server does not answer: {self.log.read_text()}")

    def stop(self) -> None:
        """Without waiting for those that are connected."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(120)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="the PostgreSQL driver is not installed: pip install 'xscl[postgres]'")
    programs, who = _programs(), _unprivileged()
    # Not in pytest's folder, whose parents other users cannot enter; and paths of sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="xscl-pg-", dir="/tmp"))
    try:
        if who:
            os.chown(folder, who["user"], who["group"])
        environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}
        options: dict[str, object] = {"cwd": folder, "env": environment, **who}
        data = folder / "data"
        # A locale other than C, if there is one, orders names differently from SQLite.
        initdb = [programs / "initdb", "-D", data, "-U", "xscl", "-A", "trust", "-E", "UTF8", "--no-sync"]
        for locale in ("en_US.UTF-8", "C.UTF-8"):
            made = subprocess.run([*initdb, f"--locale={locale}"], capture_output=True, text=True, **options)  # type: ignore[call-overload]
            if made.returncode == 0:
                break
        if made.returncode != 0:
            pytest.skip(f"initdb fails here: {made.stderr.strip()[-300:]}")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-k", folder, "-p", str(port)]
        started = Server(
            command=[programs / "postgres", "-D", data, *settings],
            options=options,
            log=folder / "log",
            url=f"postgresql+psycopg://xscl@127.0.0.1:{port}/postgres",
        )
        try:
            started.start()
            yield started
        finally:
            started.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database."""
    name = f"t{abs(hash(request.node.nodeid))}"
    admin = sa.create_engine(server.url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"create database {name}")
    yield server.url.rpartition("/")[0] + f"/{name}"
    admin.dispose()  # the server may have been started anew
    with admin.connect() as connection:
        connection.exec_driver_sql(f"drop database {name} with (force)")
    admin.dispose()


@pytest.fixture
def catalog(url: str) -> Iterator[Catalog]:
    opened = open_catalog(url, create=True)
    yield opened
    opened.close()


def rows(catalog: Catalog) -> dict[str, list[str]]:
    """All rows of all tables, but for times of the wall clock."""
    found = {}
    with catalog.read() as connection:
        names = sa.inspect(connection).get_table_names()
        for name in sorted(set(names) - {"alembic_version"}):
            table = sa.Table(name, sa.MetaData(), autoload_with=connection)
            columns = [c for c in table.columns if c.name not in ("received", "committed")]
            values = [
                [
                    bool(v) if isinstance(c.type, sa.Boolean) or c.name in ("feed", "late") else v
                    for c, v in zip(columns, row, strict=True)
                ]
                for row in connection.execute(sa.select(*columns))
            ]
            found[name] = sorted(repr([int(v) if isinstance(v, bool) else v for v in row]) for row in values)
    return found


def fill(catalog: Catalog) -> None:
    registry = Registry(catalog)
    add_channel(catalog, "ticks", kind="rows", schema="price double, size bigint")
    registry.register("S//a", name="first")
    assert [outcome.ok for outcome in registry.register_many(TEXTS)] == [True] * 5 + [False, True, False]
    registry.load("DECLARE NAMESPACE p = 'urn:p'; CREATE QUERY named AS S//p:a; DROP QUERY first; S//a")
    registry.register("S//b", name="first")


def test_rows_are_those_of_sqlite(catalog: Catalog, tmp_path: Path) -> None:
    other = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", create=True)
    for each in (catalog, other):
        fill(each)
    assert rows(catalog) == rows(other)
    assert [t.id for t, _, _ in catalog.ask(read_template_use)] == [t.id for t, _, _ in other.ask(read_template_use)]
    for template, _, _ in other.ask(read_template_use):
        assert catalog.ask(read_rt_rows, template) == other.ask(read_rt_rows, template)
    assert list(channel_rows(catalog)) == list(channel_rows(other))
    other.close()


def test_refusals(catalog: Catalog) -> None:
    fill(catalog)
    registry = Registry(catalog)
    for call, condition in (
        (lambda: registry.register("S//a", name="first"), "XSCL_NAME_TAKEN"),
        (lambda: registry.drop("nobody"), "XSCL_QUERY_NOT_FOUND"),
        (lambda: catalog.ask(read_query, "no\0body"), "XSCL_BAD_REQUEST"),
        (lambda: registry.register("S//a PUBLISH ticks"), "XSCL_CHANNEL_KIND"),
        (lambda: registry.register("out//a PUBLISH S"), "XSCL_CYCLIC_PUBLISH"),
    ):
        with pytest.raises(CatalogError) as caught:
            call()
        assert caught.value.condition == condition
    count = count_queries(catalog)
    assert not any(outcome.ok for outcome in registry.load("S//a; S//[", atomic=True))
    assert count_queries(catalog) == count


def test_no_catalogue(url: str) -> None:
    with pytest.raises(CatalogError) as caught:
        open_catalog(url.replace("xscl@", "xscl:secret@"))
    assert caught.value.condition == "XSCL_NO_CATALOG"
    assert "secret" not in str(caught.value)
    with pytest.raises(CatalogError) as caught:
        open_catalog(url.replace("127.0.0.1", "127.0.0.2").rpartition(":")[0] + ":1/postgres")
    assert caught.value.condition == "XSCL_CATALOG_UNREACHABLE"


def test_listing(catalog: Catalog, tmp_path: Path) -> None:
    other = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}", create=True)
    texts = ["S//a", "T//a", "S//a->x JOIN {x = y, 1 h} T//p->y"]
    given = [(f"{name}_{i % 7}", texts[i % 3]) for i, name in enumerate(["a", "B", "ä", "a-b", "Z", "_", "a.b"] * 9)]
    for each in (catalog, other):
        Registry(each).register_many(dict(given).items())
    for wanted in (
        QueryFilter(),
        QueryFilter(after="a", limit=3),
        QueryFilter(offset=2, limit=3),
        QueryFilter(like="a*"),
        QueryFilter(like="?_?"),
        QueryFilter(like="*b%"),
        QueryFilter(channel="T"),
        QueryFilter(channel="none"),
        QueryFilter(group=1),
        QueryFilter(template=next(list_queries(other)).template, channel="S", like="*_*"),
    ):
        names = [info.name for info in list_queries(catalog, wanted)]
        assert names == [info.name for info in list_queries(other, wanted)]
        assert count_queries(catalog, wanted) == count_queries(other, wanted)
    other.close()


# -- at once ---------------------------------------------------------------------------------------------------


def at_once(url: str, work: Callable[[Catalog, int], None], workers: int = 4) -> None:
    def one(number: int) -> None:
        own = open_catalog(url)
        work(own, number)
        own.close()

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, range(workers)))


def test_registrations_at_once(catalog: Catalog, url: str) -> None:
    taken: list[str] = []

    def work(own: Catalog, number: int) -> None:
        registry = Registry(own)
        for i in range(25):
            # New templates and groups, shared ones, and one name that everybody wants.
            registry.register(f"S//a{i}->x JOIN {{x = y, {number + 1} h}} T//p->y", name=f"w{number}_{i}")
            registry.register("S//a")
            try:
                registry.register("S//b", name=f"shared{i}")
                taken.append(f"shared{i}")
            except CatalogError as error:
                assert error.condition == "XSCL_NAME_TAKEN"

    at_once(url, work)
    assert sorted(taken) == sorted(f"shared{i}" for i in range(25))
    infos = catalog.ask(read_queries)
    assert len(infos) == len({info.name for info in infos}) == 4 * 50 + 25
    assert sorted(info.docid_from for info in infos) == list(range(1, 226)), "no place is lost or taken twice"
    assert len({info.received for info in infos}) == 225
    with catalog.read() as connection:
        assert connection.scalar(sa.select(HOME.c.next_place)) == 226
    assert sum(groups for _, _, groups in catalog.ask(read_template_use)) == 4 * 25 + 2


def test_the_database_itself_refuses_a_second_live_name(catalog: Catalog) -> None:
    Registry(catalog).register("S//a", name="q")
    with catalog.begin() as connection:
        row = dict(connection.execute(sa.select(QUERIES)).one()._mapping)
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(QUERIES.insert().values(**{**row, "query": 999}))
        connection.rollback()


def test_a_home_that_is_busy(catalog: Catalog, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.catalog.catalog._BUSY_TIMEOUT_MS", 200)
    other = open_catalog(url)
    with catalog.begin(), pytest.raises(CatalogError) as caught:
        Registry(other).register("S//a")
    assert caught.value.condition == "XSCL_CATALOG_BUSY"
    assert Registry(other).register("S//a") == "q1"
    other.close()


def test_catalogues_are_created_at_once(url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: open_catalog(url, create=True), range(4)))
    assert [Registry(each).register("S//a") for each in opened] == ["q1", "q2", "q3", "q4"]
    for each in opened:
        each.close()


# -- homes -----------------------------------------------------------------------------------------------------


def test_intake(url: str, tmp_path: Path) -> None:
    home = init_home(tmp_path / "home", url)
    events = [Event("S", f"d{i}", i, xml=f"<a>{i}</a>") for i in range(50)]
    Registry(home.catalog).register("ticks[./p->x] JOIN {x = y, 1 h} S//a->y")
    nul = Event("S\0", "nul", 1, xml="<a/>")
    report = Intake(home).take(
        [nul, *events, Event("ticks", "t", 1, row={"p": 1}), Event("S", "bad", 1, xml="<a>"), events[0]]
    )
    assert (report.taken, report.rejected, report.duplicates) == (51, 2, 1)
    with home.catalog.read() as connection:
        assert connection.scalar(sa.select(sa.func.count()).select_from(EVENT_IDS)) == 51
    (info,) = home.catalog.ask(read_queries)
    (template,) = [t for t, _, _ in home.catalog.ask(read_template_use) if t.id == info.template]
    assert home.catalog.ask(read_rt_rows, template)[0]["fn_l_1"] == "number"
    home.catalog.close()


def test_answers_about_absence_are_taken_back(url: str, tmp_path: Path) -> None:
    def event(channel: str, ts: int, value: int) -> Event:
        return Event(channel, f"{channel}{ts}", ts, xml=f"<e><i>{value}</i><k>{value}</k></e>")

    with Engine(init_home(tmp_path / "home", url)) as engine:
        for k in (1, 2):
            engine.register(f"A/e[./i->a][./k = '{k}'] NOT FOLLOWED BY {{a = b, 10}} B/e[./i->b]", name=f"q{k}")
        for events in ([event("A", 1, 1), event("A", 2, 2)], [event("B", 30, 9)], [event("B", 5, 1)]):
            engine.ingest(events)
            engine.run_once()
        assert [len(list(engine.matches(name))) for name in ("q1", "q2")] == [0, 1]
        assert [len(list(engine.changes(name, after="start"))) for name in ("q1", "q2")] == [2, 1]


def test_homes_move_between_databases(url: str, tmp_path: Path) -> None:
    """From SQLite to PostgreSQL and back: the same rows and matches, which go on alike; a repair works there too."""
    with Engine(init_home(tmp_path / "first")) as engine:
        sample_home.fill(engine, tmp_path)
        expected, before = list(engine.matches()), rows(engine.home.catalog)
        first = io.BytesIO()
        export_home(engine.home, first)
        first.seek(0)
    import_home(tmp_path / "second", first, url)
    second = io.BytesIO()
    with Engine(open_home(tmp_path / "second", url)) as engine:
        assert list(engine.matches()) == expected
        assert not list(examine_home(engine.home, deep=True).problems)
        assert not (tmp_path / "second" / "catalog.db").exists()
        export_home(engine.home, second)
        # Numbers go on.
        engine.register("S//book[./author = 'B']", name="more")
        engine.ingest([Event("S", "x1", 103, xml="<book><author>B</author></book>"), Event("S", "x2", 104, xml="<a>")])
        with engine.home.catalog.begin() as connection:
            template = engine.home.catalog.ask(read_query, "author_long").template
            connection.exec_driver_sql(f"drop table rt_{template}")
            connection.exec_driver_sql("update home set next_place = 1")
        assert {what for what, _, _ in examine_home(engine.home).problems} == {"derived", "places"}
        assert len(repair_home(engine.home)) == 2
        assert not list(examine_home(engine.home).problems)
        engine.run_once()
        assert [m.events[0].id for m in engine.matches("more")] == ["x1"]
    with pytest.raises(CatalogError) as caught:
        import_home(tmp_path / "again", io.BytesIO(second.getvalue()), url)
    assert caught.value.condition == "XSCL_HOME_NOT_EMPTY"
    assert not (tmp_path / "again").exists()
    second.seek(0)
    import_home(tmp_path / "third", second)
    with Engine(open_home(tmp_path / "third")) as engine:
        assert list(engine.matches()) == expected
        after = rows(engine.home.catalog)
        for gone in ("state_files", "old_files"):
            del before[gone], after[gone]
        assert after == before


def test_an_import_that_fails_leaves_the_database_as_it_was(url: str, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register(TEXTS[0], name="q")
        export_home(engine.home, stream)

    def fail(at: str) -> None:
        if at == "import.renamed":
            raise OSError(28, "No space left on device")

    stream.seek(0)
    with hooked(fail), pytest.raises(OSError, match="No space"):
        import_home(tmp_path / "copy", stream, url)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    stream.seek(0)
    import_home(tmp_path / "copy", stream, url)
    home = open_home(tmp_path / "copy", url)
    assert home.catalog.ask(read_query, "q").text == TEXTS[0]
    home.catalog.close()


def test_plans_follow_what_others_register_and_drop(url: str, tmp_path: Path) -> None:
    home = init_home(tmp_path / "home", url)
    registry = Registry(home.catalog)
    planner = Planner(home.catalog, home.folder("programs"))
    registry.register_many(["S//a", "S//a->x JOIN {x = y, 1 h} T//b->y", "S//a"])
    changes = (lambda: None, 10, 2), (lambda: registry.drop("q2"), 11, 1), (lambda: registry.register("T//c"), 12, 2)
    for change, last, groups in changes:
        change()
        plan, fresh = planner.plan(last - 5, last), Planner(home.catalog, home.folder("programs")).plan(last - 5, last)
        assert plan is not None and fresh is not None
        assert plan.program.groups == fresh.program.groups
        assert len(plan.program.groups) == groups
    home.catalog.close()


def test_a_run_goes_on_when_the_server_comes_back(url: str, server: Server, tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home", url)) as engine:
        engine.register(TEXTS[0], name="Q")
        engine.ingest([Event("S", "1", 1, xml="<book><author>A</author><title>T</title></book>")])
        handle = engine.start(every="10 ms")
        wait_for(lambda: engine.home.catalog.ask(read_last_places) == (2, 2))
        server.stop()
        with pytest.raises(CatalogError, match="XSCL_CATALOG_UNREACHABLE"):
            engine.home.catalog.ask(read_last_places)
        wait_for(lambda: handle.lastProblem is not None)
        assert handle.isActive
        server.start()
        engine.ingest([Event("S", "2", 2, xml="<blog><author>A</author><title>T</title></blog>")])
        wait_for(lambda: engine.home.catalog.ask(read_last_places) == (3, 3))
        handle.stop()
        assert [[event.id for event in match.events] for match in engine.matches("Q")] == [["1", "2"]]


def test_no_statement_reads_a_whole_table_that_grows(url: str, tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home", url)) as engine:
        statements = executed(engine, tmp_path)
        with engine.home.catalog.engine.connect() as connection:
            add_rows(connection, 20_000)
            connection.exec_driver_sql("ANALYZE")
            bad, used = bad_plans(statements, postgres_scans(connection), {**DELIBERATE, **ON_POSTGRES})
    told = "\n".join(f"{of}: {text}" for text, of in bad.items())
    assert told == ""
    assert set(ON_POSTGRES) <= used
    assert len(statements) > 150


# -- tokens and deliveries -----------------------------------------------------------------------------------------


def test_tokens_are_those_of_sqlite(url: str, tmp_path: Path) -> None:
    """What is written and refused is the same; what tokens and keys are made of is chance."""
    told = []
    for place, name in ((str(tmp_path / "sqlite.db"), "sqlite"), (url, "postgres")):
        catalog = open_catalog(f"sqlite:///{place}" if name == "sqlite" else place, create=True)
        try:
            told.append(_use_tokens(catalog))
        finally:
            catalog.close()
    assert told[0] == told[1]


def _use_tokens(catalog: Catalog) -> list[object]:
    told: list[object] = []
    with catalog.begin() as connection:
        text = add_token(connection, "ann", ["read", "write"], 1, queries=3, cost=1 << 40)
        other = add_token(connection, "bob", ["admin"], 2)
    told += [catalog.ask(read_token, given) for given in (text, other, "xscl_none", "none", "xscl_ä\0")]
    for wrong in (("ann", ["read"]), ("carl", ["root"]), ("carl", [])):
        with pytest.raises(CatalogError) as raised, catalog.begin() as connection:
            add_token(connection, *wrong, 3)
        told.append(raised.value.condition)
    with catalog.begin() as connection:
        set_limits(connection, "ann", {"queries": None})
        revoke_token(connection, "bob")
    with pytest.raises(CatalogError) as raised, catalog.begin() as connection:
        set_limits(connection, "bob", {"cost": 1})
    told += [
        raised.value.condition,
        catalog.ask(list_tokens),
        catalog.ask(read_limits, "ann"),
        catalog.ask(read_token, other),
    ]
    return told


def test_a_token_limits_cost(url: str, tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home", url)) as engine:
        with engine.home.catalog.begin() as connection:
            add_token(connection, "ann", ["write"], 1, cost=10)
        outcomes = engine.register_many([(f"q{n}", text) for n, text in enumerate(TEXTS[:4])], owner="ann")
        # The first has six variables and two joins: what is left is for none of the others.
        assert [None if each.error is None else each.error.condition for each in outcomes] == [
            None,
            *["XSCL_QUERY_COST"] * 3,
        ]
        assert engine.home.catalog.ask(owner_use, "ann") == (1, 8)


def test_deliveries_arrive_and_dead_letters_are_sent_again(url: str, tmp_path: Path) -> None:
    home = init_home(tmp_path / "home", url)
    soon = DeliverySettings(
        retries=Retries(first_s=0.01, soon_s=0.02, most_s=0.02, attempts=2),
        page=3,
        limits=FetchLimits(total_s=60),
        look_s=0.05,
    )
    with Engine(home) as engine, hook_server() as hook:
        hook.answer = lambda number: 500
        engine.register("ticks[./price > 100]", name="high")
        engine.ingest(Event("ticks", f"t{n}", n, row={"price": n}) for n in range(99, 106))
        engine.run_once()
        add_webhook(home, "shop", "high", hook.url, after="start", private=True)
        with pytest.raises(CatalogError):
            add_webhook(home, "shop", "high", hook.url, after="start", private=True)
        add_files(home, "archive", "high", tmp_path / "out", after="start", most_bytes=1 << 20)
        deliverer = Deliverer(home, soon)
        deliverer.start()
        try:
            wait_for(lambda: [row["dead_matches"] for row in delivery_rows(home)] == [0, 5])
            hook.answer = lambda number: 200
            assert send_again(home, "shop", None) == {"matches": 5}
            deliverer.wake()
            wait_for(lambda: [row["sent"] for row in delivery_rows(home)] == [5, 5])
            assert len(hook.taken) == 5
        finally:
            deliverer.stop()
        wanted = [match.id for match in list_matches(home, query="high", after="start")]
        assert sorted(hook.taken) == sorted(wanted)
        [file] = (tmp_path / "out").iterdir()
        assert len(file.read_text(encoding="utf-8").splitlines()) == 5
        with home.catalog.begin() as connection:
            drop_delivery(connection, "shop")
        assert [row["delivery"] for row in delivery_rows(home)] == ["archive"]
