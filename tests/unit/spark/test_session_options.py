"""Where a session runs: what an address must look like, and that nobody waits where nobody answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import typer

from xscl.base.errors import EngineError
from xscl.cli.options import SparkOptions
from xscl.spark.session_options import LOCAL, SessionOptions, parse_conf, refuse_unanswered


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def silent(listening: int) -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("master", "remote", "told"),
    [
        ("local[2]", "sc://h", "both are given"),
        (None, "http://h:1", "no address of Spark Connect"),
        ("sc://h", None, "no master of Spark"),
        ("foo", None, "no master of Spark"),
        (None, "spark://h/;token=abc", "token=\\*\\*\\*"),
    ],
)
def test_an_address_that_is_none_is_refused(master: str | None, remote: str | None, told: str) -> None:
    with pytest.raises(EngineError, match=told) as caught:
        SessionOptions(master, remote)
    assert caught.value.condition == "XSCL_BAD_OPTION"


def test_which_sessions_are_on_this_machine() -> None:
    assert LOCAL.on_this_machine
    assert SessionOptions("local[2]").on_this_machine and SessionOptions("local-cluster[2,1,512]").on_this_machine
    assert not SessionOptions("spark://h:7077").on_this_machine
    assert not SessionOptions(remote="sc://localhost").on_this_machine


def test_an_address_where_nobody_answers_is_refused_at_once(silent: int) -> None:
    for options in (
        SessionOptions(f"spark://127.0.0.1:{silent}"),
        SessionOptions(remote=f"sc://127.0.0.1:{silent}/;a=b"),
    ):
        with pytest.raises(EngineError, match=rf"127\.0\.0\.1:{silent} \(Connection refused\)") as caught:
            refuse_unanswered(options)
        assert caught.value.condition == "XSCL_NO_SPARK"


def test_one_master_of_several_may_answer(listening: int, silent: int) -> None:
    refuse_unanswered(SessionOptions(f"spark://127.0.0.1:{silent},127.0.0.1:{listening}"))
    refuse_unanswered(SessionOptions(remote=f"sc://127.0.0.1:{listening}/;user_id=x"))
    refuse_unanswered(LOCAL)


def test_behind_a_proxy_gRPC_looks_itself(silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:8080")
    refuse_unanswered(SessionOptions(remote=f"sc://127.0.0.1:{silent}"))


def test_options_of_the_command_line_go_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert SparkOptions().session() == LOCAL
    monkeypatch.setenv("XSCL_MASTER", "spark://h:7077")
    assert SparkOptions().session().master == "spark://h:7077"
    given = SparkOptions(remote="sc://h", conf=["spark.a=b=c"]).session()
    assert given == SessionOptions(None, "sc://h", {"spark.a": "b=c"})
    monkeypatch.setenv("XSCL_REMOTE", "sc://h")
    with pytest.raises(EngineError, match="both are given"):
        SparkOptions().session()


def test_a_setting_has_a_key_of_spark_and_a_value() -> None:
    assert parse_conf([]) == {}
    for text in ("spark.a", "a=b", "=b"):
        with pytest.raises(ValueError, match="no setting"):
            parse_conf([text])
        with pytest.raises(typer.BadParameter):
            SparkOptions(conf=[text]).session()
