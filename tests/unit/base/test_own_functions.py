"""Functions of one's own: their names, what they may return, and what a process knows of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import FunctionFailedError
from xscl.base.own_functions import load_functions, load_module, loaded_modules, own_text, require_functions
from xscl.base.values import apply_functions
from xscl.spark.own_functions import packed_functions, unpack_functions


def given(call: Callable[[str], object], version: str, returns: str = "text") -> str:
    """Load a function; return its name in definitions."""
    made = xscl.function(name="unit_test", version=version, returns=returns)(call)
    load_functions([made])
    return str(made.full)


def test_each_text_is_asked_once() -> None:
    calls: list[str] = []
    full = given(lambda text: calls.append(text) or text.upper(), "once")
    assert [own_text(full, text) for text in "aba"] == ["A", "B", "A"]
    assert calls == ["a", "b"]
    assert apply_functions(f"lower {full}", "a") == "a"


@pytest.mark.parametrize(
    ("value", "expected"), [(5, "5"), (0.5, "0.5"), (1e21, "1" + "0" * 21), (2.0, "2"), (None, None)]
)
def test_numbers_have_one_text(value: object, expected: str | None) -> None:
    full = given(lambda _: value, f"n{value}".replace("+", ""), "number")
    assert apply_functions(full, "x") == expected


@pytest.mark.parametrize(
    ("returns", "value"),
    [("text", 5), ("text", b"a"), ("text", "\0"), ("text", "x" * 1_000_001), ("text", "\ud800")]
    + [("number", "5"), ("number", True), ("number", float("nan")), ("number", float("inf"))],
)
def test_a_wrong_value_is_a_failure(returns: str, value: object) -> None:
    full = given(lambda _: value, f"wrong{abs(hash((returns, repr(value))))}", returns)
    with pytest.raises(FunctionFailedError, match=r"unit_test\('t'\) returns"):
        own_text(full, "t")


def test_an_exception_is_told_again_and_again_and_the_function_asked_once() -> None:
    calls: list[str] = []

    def fails(text: str) -> str:
        calls.append(text)
        raise KeyError(text)

    full = given(fails, "raises")
    for _ in range(2):
        with pytest.raises(FunctionFailedError, match="raises KeyError: 't'") as told:
            own_text(full, "t")
        assert told.value.condition == "XSCL_FUNCTION_FAILED"
    assert calls == ["t"]


def test_lack_of_memory_is_no_fault_of_a_text() -> None:
    def greedy(text: str) -> str:
        raise MemoryError

    with pytest.raises(MemoryError):
        own_text(given(greedy, "greedy"), "t")


@pytest.mark.parametrize("name", ["lower", "FROM", "position", "upper", "1a", "a b", "a-", "", "a(", "text"])
def test_names_of_the_language_are_not_free(name: str) -> None:
    with pytest.raises(xscl.EngineError, match="XSCL_BAD_FUNCTION"):
        xscl.function(name=name)(lambda text: text)


def test_versions_tell_functions_apart() -> None:
    first = given(lambda text: text, "same")
    with pytest.raises(xscl.EngineError, match="another version"):
        given(lambda text: text + "!", "same")
    assert own_text(first, "a") == "a"
    other = given(lambda text: text + "!", "same.2")
    assert (own_text(first, "a"), own_text(other, "a")) == ("a", "a!")
    with pytest.raises(xscl.EngineError, match="XSCL_BAD_FUNCTION"):
        xscl.function(version="a b")(lambda text: text)
    with pytest.raises(xscl.EngineError, match="XSCL_BAD_FUNCTION"):
        load_functions([lambda text: text])  # type: ignore[list-item]


def test_what_is_missing_is_named_with_its_version() -> None:
    given(lambda text: text, "here")
    with pytest.raises(xscl.EngineError, match="query q needs version gone of the function unit_test") as told:
        require_functions(["unit_test@gone"], "q")
    assert told.value.condition == "XSCL_UNKNOWN_FUNCTION"
    with pytest.raises(xscl.EngineError, match="XSCL_UNKNOWN_FUNCTION"):
        own_text("unit_test@gone", "t")


def test_modules_are_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import xscl\nf = xscl.function(name='of_module')(str.title)\ng = xscl.function(name='other')(str.title)\n"
    (tmp_path / "functions_of_a_test.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    load_module("functions_of_a_test:of_module")
    require_functions(["of_module@1"])
    with pytest.raises(xscl.EngineError, match="XSCL_UNKNOWN_FUNCTION"):
        require_functions(["other@1"])
    assert "functions_of_a_test:of_module" in loaded_modules()
    for name in ("functions_of_a_test:none", "no_such_module_at_all", ""):
        with pytest.raises(xscl.EngineError, match="XSCL_BAD_FUNCTION"):
            load_module(name)


def test_functions_go_to_tasks_with_their_module() -> None:
    load_functions([of_this_module])
    (packed,) = packed_functions({"of_this_module@1"})
    assert b"helper_of_this_module" in packed, "what it calls goes with it"
    unpack_functions((packed,))
    assert pickle.loads(packed)("a") == "a?"


def helper_of_this_module(text: str) -> str:
    return text + "?"


@xscl.function
def of_this_module(text: str) -> str:
    return helper_of_this_module(text)
