"""Deliveries: webhooks and files get every match at least once, with equal ids, whatever fails meanwhile."""

from __future__ import annotations

import fcntl
import gzip
import hashlib
import hmac
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hook_server import hook_server
from sqlalchemy.engine import Connection
from waiting import wait_for

from xscl.answers.deliveries import add_files, add_webhook, delivery_rows, send_again
from xscl.answers.matches.listing import Listing, list_matches
from xscl.base.errors import CatalogError, EngineError, SourceError
from xscl.base.failpoints import hooked
from xscl.base.types import Event
from xscl.catalog.deliveries import (
    DeadLetter,
    Delivery,
    drop_delivery,
    give_up,
    read_dead_letters,
    read_delivery,
    replay_from,
    settle_dead_letter,
)
from xscl.catalog.tokens import add_token, list_tokens
from xscl.engine import Engine
from xscl.ingest.fetch import FetchLimits
from xscl.service.delivering import deliverer as deliverer_module
from xscl.service.delivering import sending as sending_module
from xscl.service.delivering.deliverer import Deliverer
from xscl.service.delivering.files import append_lines, next_file
from xscl.service.delivering.pages import Page
from xscl.service.delivering.sending import DeliverySettings
from xscl.service.delivering.webhooks import Retries, signature
from xscl.store.home import Home, init_home, open_home
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home

SOON = DeliverySettings(
    retries=Retries(first_s=0.01, most_s=0.02), page=7, limits=FetchLimits(total_s=60), look_s=0.05, apart_s=0
)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("ticks[./price > 100]", name="high")
        engine.register("ticks[./price > 1000]", name="never")
        yield engine


def push(engine: Engine, *prices: int) -> None:
    engine.ingest(Event("ticks", f"t{price}", price, row={"price": price}) for price in prices)
    engine.run_once()


def ids(home: Home) -> list[str]:
    return [match.id for match in list_matches(home, Listing("high", after="start"))]


@contextmanager
def delivering(home: Home, settings: DeliverySettings = SOON) -> Iterator[Deliverer]:
    deliverer = Deliverer(home, settings)
    deliverer.start()
    try:
        yield deliverer
    finally:
        deliverer.stop()


def row(home: Home, name: str) -> dict[str, object]:
    return next(each for each in delivery_rows(home) if each["delivery"] == name)


def test_every_match_arrives_at_a_target_that_fails_half_the_time(engine: Engine) -> None:
    push(engine, *range(90, 130))
    with hook_server(lambda number: (503, 200)[number % 2]) as hooks:
        secret = add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home) as deliverer:
            wait_for(lambda: len(set(hooks.taken)) == 29)
            push(engine, 200, 201, 99)
            deliverer.wake()
            wait_for(lambda: len(set(hooks.taken)) == 31)
        assert hooks.taken == ids(engine.home)
        for got in hooks.got:
            at, _, digest = got.headers["x-xscl-signature"].removeprefix("t=").partition(",v1=")
            assert abs(time.time() - int(at)) < 600
            assert digest == hmac.new(secret.encode(), at.encode() + b"." + got.body, hashlib.sha256).hexdigest()
            assert got.headers["content-type"] == "application/x-ndjson"
            assert len(got.ids) <= 7
            assert all(json.loads(line)["cursor"] for line in got.body.splitlines())
        # A page that is sent once more has the key that it had.
        assert hooks.got[0].headers["idempotency-key"] == hooks.got[1].headers["idempotency-key"]
        assert hooks.got[1].headers["idempotency-key"] != hooks.got[2].headers["idempotency-key"]
    told = row(engine.home, "shop")
    assert (told["state"], told["sent"], told["failures"]) == ("active", 31, 0)
    assert secret not in json.dumps(delivery_rows(engine.home))


def test_a_delivery_begins_with_what_comes(engine: Engine) -> None:
    push(engine, 101)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after=None, private=True)
        push(engine, 102)
        with delivering(engine.home):
            wait_for(lambda: hooks.taken)
        assert hooks.taken == ids(engine.home)[1:]


def test_what_was_sent_and_not_noted_is_sent_again(engine: Engine) -> None:
    push(engine, *range(101, 111))
    failures = iter([True])

    def fail(step: str) -> None:
        if step == "deliver.sent" and next(failures, False):
            raise RuntimeError("the process would end here")

    with hook_server() as hooks, hooked(fail):
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home):
            wait_for(lambda: len(set(hooks.taken)) == 10)
        assert hooks.taken == ids(engine.home)[:7] + ids(engine.home)


_SERVE = """
import sys, time
from xscl.service.delivering import sending as sending_module
from xscl.service.delivering.deliverer import Deliverer
from xscl.service.delivering.pages import Page
from xscl.service.delivering.sending import DeliverySettings
from xscl.store.home import open_home
Deliverer(open_home(sys.argv[1]), DeliverySettings(page=7)).start()
time.sleep(600)
"""


def test_a_process_that_is_killed_between_sending_and_noting_repeats_a_page(engine: Engine) -> None:
    push(engine, *range(101, 121))
    with hook_server() as hooks:
        add_webhook(engine.home, "out", "high", hooks.url, after="start", private=True)
        environment = {**os.environ, "XSCL_CRASH_AT": "deliver.sent:2"}
        ended = subprocess.run([sys.executable, "-c", _SERVE, str(engine.home.root)], env=environment, check=False)
        assert ended.returncode == -signal.SIGKILL
        assert row(engine.home, "out")["sent"] == 7
        with delivering(engine.home):
            wait_for(lambda: row(engine.home, "out")["sent"] == 20)
        assert hooks.taken == ids(engine.home)[:14] + ids(engine.home)[7:]


def test_a_page_that_was_written_and_not_noted_is_written_once(engine: Engine, tmp_path: Path) -> None:
    push(engine, *range(101, 121))
    failures = iter([False, True])

    def fail(step: str) -> None:
        if step == "deliver.sent" and next(failures, False):
            raise RuntimeError("the process would end here")

    add_files(engine.home, "out", "high", tmp_path / "out", after="start", most_bytes=1 << 20)
    with hooked(fail), delivering(engine.home):
        wait_for(lambda: row(engine.home, "out")["sent"] == 20)
    assert lines(tmp_path / "out") == ids(engine.home)


def lines(folder: Path) -> list[str]:
    return [
        json.loads(line)["match"]
        for path in sorted(folder.glob("*.ndjson"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def test_files_follow_each_other_by_size(engine: Engine, tmp_path: Path) -> None:
    add_files(engine.home, "out", "high", tmp_path / "out", after="start", most_bytes=2_000)
    push(engine, *range(101, 131))
    with delivering(engine.home) as deliverer:
        wait_for(lambda: row(engine.home, "out")["sent"] == 30)
        files = sorted((tmp_path / "out").iterdir())
        assert [path.name[-13:-7] for path in files] == ["000001", "000002", "000003"]
        assert lines(tmp_path / "out") == ids(engine.home)
        # Whoever takes the last file away gets a new one.
        files[-1].unlink()
        push(engine, 200)
        deliverer.wake()
        wait_for(lambda: row(engine.home, "out")["sent"] == 31)
    assert sorted((tmp_path / "out").iterdir())[-1].name[-13:-7] == "000004"


def test_a_copy_of_a_home_writes_over_nothing_of_the_other(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "out"
    add_files(engine.home, "out", "high", out, after="start", most_bytes=1 << 20)
    push(engine, 101, 102)
    with delivering(engine.home):
        wait_for(lambda: row(engine.home, "out")["sent"] == 2)
    shutil.copytree(engine.home.root, tmp_path / "copy")
    with Engine(open_home(tmp_path / "copy")) as copy:
        for number, each in enumerate((engine, copy, engine, copy)):
            # The first event of the copy comes to both.
            push(each, *(103, 110 + number)[: 2 if number < 2 else 1], 120 + number)
            count = len(ids(each.home))
            with delivering(each.home):
                wait_for(lambda home=each.home, count=count: row(home, "out")["sent"] == count)
        assert set(lines(out)) == {*ids(engine.home), *ids(copy.home)}
    assert len(list(out.iterdir())) > 1


def test_nobody_waits_for_a_file_that_another_process_has_locked(tmp_path: Path) -> None:
    path = tmp_path / "out-20260601-000001.ndjson"
    assert append_lines(path, 0, b"one\n") == 4
    with path.open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert append_lines(path, 4, b"two\n") is None
    assert append_lines(path, 4, b"two\n") == 8


def test_lines_go_over_those_of_the_same_page_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    assert append_lines(path, 0, b"one\n") == 4
    for left, taken in ((b"", True), (b"tw", True), (b"two\n", True), (b"t\0\0\0\0\0", True), (b"two\nthree\n", False)):
        path.write_bytes(b"one\n" + left)
        assert append_lines(path, 4, b"two\n") == (8 if taken else None)
        assert path.read_bytes() == (b"one\ntwo\n" if taken else b"one\n" + left)


def test_a_file_is_no_link_to_another_place(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept", encoding="utf-8")
    (tmp_path / "out-20260601-000001.ndjson").symlink_to(tmp_path / "precious")
    assert next_file(tmp_path, "out", "20260601", None, 0, 10) == "out-20260601-000002.ndjson"
    with pytest.raises(EngineError, match="XSCL_CANNOT_WRITE"):
        append_lines(tmp_path / "out-20260601-000001.ndjson", 0, b"x")
    assert (tmp_path / "precious").read_text(encoding="utf-8") == "kept"


def test_what_a_target_does_not_take_is_given_up_and_sent_again(engine: Engine) -> None:
    push(engine, *range(101, 111))
    impatient = DeliverySettings(
        retries=Retries(first_s=0.001, most_s=0.001, attempts=3), page=6, limits=SOON.limits, look_s=0.05, apart_s=0
    )
    with hook_server(lambda number: 500) as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home, impatient) as deliverer:
            wait_for(lambda: row(engine.home, "shop")["dead_matches"] == 10)
            assert len(hooks.got) == 6
            told = row(engine.home, "shop")
            assert (told["state"], told["dead_letters"], told["sent"]) == ("dead letters", 2, 0)
            assert "answered 500" in str(told["problem"])
            # Once more in vain, then with success, beside what is new.
            send_again(engine.home, "shop", None)
            deliverer.wake()
            wait_for(lambda: len(hooks.got) == 8)
            hooks.answer = lambda number: 200
            push(engine, 200)
            assert send_again(engine.home, "shop", None) == {"matches": 10}
            deliverer.wake()
            wait_for(lambda: row(engine.home, "shop")["sent"] == 11)
        assert sorted(hooks.taken) == sorted(ids(engine.home))
        assert row(engine.home, "shop")["dead_letters"] == 0


def test_a_page_goes_once_though_the_catalogue_was_read_before_it_was_noted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_slowly(connection: Connection) -> Any:
        state = read_state(connection)
        time.sleep(0.03)
        return state

    read_state = deliverer_module._read_state
    monkeypatch.setattr(deliverer_module, "_read_state", read_slowly)
    push(engine, *range(101, 111))
    settings = DeliverySettings(page=6, limits=SOON.limits, look_s=0.01, apart_s=0)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home, settings) as deliverer:
            for _ in range(20):
                deliverer.wake()
                time.sleep(0.01)
            wait_for(lambda: row(engine.home, "shop")["sent"] == 10)
        assert hooks.taken == ids(engine.home)


def test_deliveries_go_on_behind_a_fault_that_nobody_foresaw(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def read_badly(connection: Connection) -> Any:
        if next(failures, False):
            raise RuntimeError("no such luck")
        return read_state(connection)

    failures = iter([True])
    read_state = deliverer_module._read_state
    monkeypatch.setattr(deliverer_module, "_read_state", read_badly)
    push(engine, 101)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home):
            wait_for(lambda: row(engine.home, "shop")["sent"] == 1)
    assert "deliveries: RuntimeError('no such luck')" in capfd.readouterr().err


def test_everything_is_sent_again_on_demand(engine: Engine) -> None:
    push(engine, 101, 102)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home) as deliverer:
            wait_for(lambda: row(engine.home, "shop")["sent"] == 2)
            send_again(engine.home, "shop", "start")
            deliverer.wake()
            wait_for(lambda: len(hooks.taken) == 4)
        assert hooks.taken == ids(engine.home) * 2


def test_a_delivery_that_has_the_name_of_another_begins_where_it_says(engine: Engine) -> None:
    push(engine, 101, 102)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "never", hooks.url, after="start", private=True)
        with delivering(engine.home, DeliverySettings(limits=SOON.limits, look_s=60, apart_s=0)) as deliverer:
            # Looking on behind everything, it has found nothing for the first query.
            wait_for(lambda: deliverer.place(read(engine.home, "shop")) == "c2")
            with engine.home.catalog.begin() as connection:
                drop_delivery(connection, "shop")
            add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
            assert deliverer.place(read(engine.home, "shop")) == "c0"
            deliverer.wake()
            wait_for(lambda: row(engine.home, "shop")["sent"] == 2)
        assert hooks.taken == ids(engine.home)


def read(home: Home, name: str) -> Delivery:
    return home.catalog.ask(read_delivery, name)


def letters(home: Home, name: str) -> list[DeadLetter]:
    return home.catalog.ask(read_dead_letters, name)


def test_a_letter_that_cannot_be_read_holds_up_nothing(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_badly(*args: Any, until: str | None, **kwargs: Any) -> Page:
        if until is not None:
            raise EngineError("XSCL_HOME_DAMAGED", "a file is gone")
        return read_page(*args, until=until, **kwargs)

    read_page = sending_module.next_page
    monkeypatch.setattr(sending_module, "next_page", read_badly)
    push(engine, 101)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with engine.home.catalog.begin() as connection:
            give_up(connection, read_delivery(connection, "shop"), DeadLetter("c0", "c2", 1, "answered 500", 7))
        push(engine, 102)
        send_again(engine.home, "shop", None)
        with delivering(engine.home):
            wait_for(lambda: row(engine.home, "shop")["sent"] == 1)
            assert hooks.taken == ids(engine.home)[1:]
            [letter] = letters(engine.home, "shop")
            assert "a file is gone" in letter.problem and not letter.again
            # It is there for the next time.
            monkeypatch.undo()
            send_again(engine.home, "shop", None)
            wait_for(lambda: not letters(engine.home, "shop"))
        assert hooks.taken == ids(engine.home)[::-1]


def test_a_letter_with_the_number_of_another_stays(engine: Engine) -> None:
    for name in ("one", "two"):
        add_webhook(engine.home, name, "high", "https://hooks.example/x", after="start")
    with engine.home.catalog.begin() as connection:
        give_up(connection, read_delivery(connection, "one"), DeadLetter("c0", "c2", 1, "answered 500", 7))
        [sent] = read_dead_letters(connection, "one")
        # While it is sent again, somebody has everything sent, and the next letter takes its number.
        replay_from(connection, "one", "c0")
        give_up(connection, read_delivery(connection, "two"), DeadLetter("c0", "c2", 1, "answered 500", 8))
        [other] = read_dead_letters(connection, "two")
        settle_dead_letter(connection, "one", sent, None)
        assert other.number == sent.number and read_dead_letters(connection, "two") == [other]


def test_redirects_are_not_followed(engine: Engine) -> None:
    push(engine, 101)
    with hook_server() as other, hook_server(lambda number: 307, location=other.url) as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with delivering(engine.home):
            wait_for(lambda: row(engine.home, "shop")["failures"])
        assert other.got == []
        assert "XSCL_REDIRECT" in str(row(engine.home, "shop")["problem"])


def test_private_targets_need_a_word(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XSCL_ALLOW_PRIVATE", raising=False)
    for url in ("http://127.0.0.1/", "http://localhost:8000/x", "http://[::1]/", "http://10.0.0.7/"):
        with pytest.raises(SourceError, match="XSCL_PRIVATE_ADDRESS"):
            add_webhook(engine.home, "shop", "high", url, after=None)
    with pytest.raises(SourceError, match="metadata"):
        add_webhook(engine.home, "shop", "high", "http://169.254.169.254/", after=None, private=True)
    for url in ("file:///etc/passwd", "ftp://a.example/", "http://ann:secret@a.example/"):
        with pytest.raises(SourceError, match="XSCL_BAD_URL"):
            add_webhook(engine.home, "shop", "high", url, after=None, private=True)
    # A name is resolved and judged when something is sent.
    push(engine, 101)
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "high", hooks.url, after="start", private=True)
        with engine.home.catalog.engine.begin() as connection:
            connection.exec_driver_sql("update deliveries set private = 0")
        with delivering(engine.home):
            wait_for(lambda: row(engine.home, "shop")["failures"])
        assert hooks.got == []
        assert "XSCL_PRIVATE_ADDRESS" in str(row(engine.home, "shop")["problem"])


def test_refusals(engine: Engine) -> None:
    url = "https://hooks.example/x"
    add_webhook(engine.home, "shop", "high", url, after=None)
    for name, query, after, condition in (
        ("shop", "high", None, "XSCL_DELIVERY_EXISTS"),
        ("other", "unknown", None, "XSCL_QUERY_NOT_FOUND"),
        ("other", "high", "x", "XSCL_BAD_CURSOR"),
        ("other", "high", "c99", "XSCL_BAD_CURSOR"),
    ):
        with pytest.raises((CatalogError, EngineError), match=condition):
            add_webhook(engine.home, name, query, url, after=after)
    with pytest.raises(CatalogError, match="XSCL_DELIVERY_NOT_FOUND"), engine.home.catalog.begin() as connection:
        drop_delivery(connection, "other")
    for after in (None, "start"):
        with pytest.raises(CatalogError, match="XSCL_DELIVERY_NOT_FOUND"):
            send_again(engine.home, "other", after)


def test_a_query_without_matches_costs_no_writing(engine: Engine) -> None:
    with hook_server() as hooks:
        add_webhook(engine.home, "shop", "never", hooks.url, after="start", private=True)
        before = row(engine.home, "shop")["cursor"]
        with delivering(engine.home) as deliverer:
            for price in (101, 102, 103):
                push(engine, price)
                deliverer.wake()
                time.sleep(0.1)
        assert hooks.got == []
        assert row(engine.home, "shop")["cursor"] == before


def test_pauses_grow_to_a_most_and_end_after_a_day() -> None:
    retries = Retries()
    assert [retries.pause_s(failures, 0, 1.0) for failures in (1, 2, 3, 4, 40)] == [0.5, 1, 2, 2, 2]
    assert [retries.pause_s(40, failing_s, 1.0) for failing_s in (7, 60, 3_600, 86_400)] == [2, 15, 900, 3_600]
    assert retries.pause_s(9, 60, 0.0) == 7.5
    delivery = Delivery("d", "q", "web", "https://a.example/", "c1", 0, failures=3, failing=1_000_000)
    assert not retries.is_last(delivery, 1_000_000 + 86_399 * 1_000_000)
    assert retries.is_last(delivery, 1_000_000 + 86_400 * 1_000_000)
    waited, failures = 0.0, 0
    while waited < 86_400:
        failures += 1
        waited += retries.pause_s(failures, waited, 0.5)
    assert failures < retries.attempts


def test_a_signature_that_others_compute() -> None:
    # openssl dgst -sha256 -hmac key, of the text 7.{}
    assert signature("key", b"{}", 7) == f"t=7,v1={hmac.digest(b'key', b'7.{}', 'sha256').hex()}"


def test_archives_have_no_tokens_and_no_keys(engine: Engine, tmp_path: Path) -> None:
    secret = add_webhook(engine.home, "shop", "high", "https://hooks.example/very-private", after=None)
    with engine.home.catalog.begin() as connection:
        token = add_token(connection, "ann", ["admin"], 1)
    archive = tmp_path / "home.tar.gz"
    with archive.open("wb") as stream:
        export_home(engine.home, stream)
    packed = gzip.decompress(archive.read_bytes())
    for text in (secret, "very-private", hashlib.sha256(token.encode()).hexdigest()):
        assert text.encode() not in packed
    with archive.open("rb") as stream:
        import_home(tmp_path / "copy", stream)
    copy = open_home(tmp_path / "copy")
    assert delivery_rows(copy) == []
    assert copy.catalog.ask(list_tokens) == []
