"""Statements that read are told from all others, however they are wrapped and written."""

from __future__ import annotations

import re

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from statements import ALLOWED, REFUSED

from xscl.answers.sql.guard import Judged, judge
from xscl.base.errors import EngineError

RELATIONS = frozenset(["events", "matches", "queries", "r_bin", "r_doc", "r_docts"])

# Spark's own tokens (SqlBaseLexer.g4), told here once more.
LEXER = re.compile(
    r"""(?P<gap>\s+)
    | (?P<comment>--[^\r\n]*|/\*.*?\*/)
    | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<quoted>`(?:[^`]|``)*`)
    | (?P<word>[A-Za-z_0-9]+)
    | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
QUERY_WORDS = (
    "select from where and or not in on using as by having over exists any all some then else when case join lateral "
    "union except intersect distinct values with between like ilike rlike limit pivot unpivot for sets rollup cube "
    "filter group tablesample interval view nulls array char decimal varchar if left right "
    "div escape recursive is outer inner cross full offset minus regexp natural"
)
HARM = (
    "reflect('java.lang.System', 'getenv', 'PATH')",
    "java_method('java.util.UUID', 'randomUUID')",
    "try_reflect('java.lang.System', 'load', '/tmp/x.so')",
    "`reflect`('java.lang.System', 'exit', 0)",
    "input_file_name()",
    "current_user()",
    "current_user",
    "session_user()",
    "user()",
    "builtin.reflect('a', 'b')",
    "system.builtin.reflect('a', 'b')",
    "`system`.`builtin`.`reflect`('a', 'b')",
    "identifier('reflect')('a', 'b')",
    "from_xml('<a/>', 'a int', map('rowValidationXSDPath', '/etc/passwd'))",
    "from_avro(x, '{}')",
    "(SELECT max(value) FROM text.`/etc/passwd`)",
    "(SELECT count(*) FROM parquet.`/tmp/x`)",
    "(SELECT max(a) FROM read_files('/etc/passwd'))",
    "(SELECT max(a) FROM python_worker_logs())",
    "(SELECT count(*) FROM nobody)",
    "EXISTS (SELECT reflect('a', 'b'))",
    "no_such_function(1)",
    "${env:HOME}",
    "@variable",
    ":parameter",
)
HARMLESS = ("upper('reflect(')", "1", "abs(-1)", "(SELECT max(docid) FROM r_docts)", "`reflect`", "'${env:HOME}'")
WRAPPINGS = (
    "SELECT {} AS a",
    "SELECT " + ", ".join(f"{n} AS c{n}" for n in range(60)) + ", {} AS harm FROM events",
    "SELECT " + ", ".join(f"id AS c{n}" for n in range(400)) + ", {} FROM events",
    "SELECT * FROM (SELECT * FROM (SELECT {} AS a FROM events))",
    "WITH a AS (SELECT 1 AS x), b AS (SELECT {} AS y FROM a) SELECT x FROM a",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5 AND {} IS NULL) SELECT * FROM r",
    "SELECT transform(array(1, 2), x -> {}) FROM events",
    "SELECT aggregate(array(1), '', (acc, x) -> concat(acc, {}), acc -> acc) FROM events",
    "SELECT filter(array(1), (x, i) -> transform(array(2), y -> {}) IS NOT NULL) FROM events",
    "SELECT 1 FROM events WHERE id = 'x' OR {} IS NULL",
    "SELECT id FROM events GROUP BY id HAVING max({}) > 1",
    "SELECT id FROM events ORDER BY {}",
    "SELECT id FROM events e JOIN queries q ON e.id = {}",
    "SELECT id FROM events LATERAL VIEW explode(array({})) t AS y",
    "SELECT * FROM explode(array({}))",
    "SELECT * FROM (SELECT id, ts, channel FROM events) PIVOT (max({}) FOR channel IN ('S', 'T'))",
    "SELECT * FROM VALUES ({}) AS t(a)",
    "VALUES (1, {})",
    "SELECT 1 UNION ALL SELECT {}",
    "SELECT id FROM events, LATERAL (SELECT {} AS b) s",
    "SELECT sum(ts) OVER (PARTITION BY {} ORDER BY ts) FROM events",
    "SELECT count(*) FILTER (WHERE {} IS NULL) FROM events",
    "SELECT CASE WHEN {} IS NULL THEN 1 ELSE 2 END",
    "SELECT id IN ('a', {}) FROM events",
    "SELECT map('a', {})['a'], named_struct('b', {}).b",
    "SELECT CAST({} AS string), {}::string",
    "SELECT 1 /* {0} */, {0} -- {0}\n FROM events",
    "SELECT /* a /* nested */ b */ {} FROM events",
    "SELECT '\\'', {}, '\\\\' FROM events",
    "SELECT 'it''s', {}, \"\\\"\", r'\\' FROM events",
    "SELECT id FROM events WHERE id LIKE '%' ESCAPE '!' AND {} = '--'",
    "FROM events SELECT {}",
    "DESCRIBE QUERY SELECT {}",
    "((SELECT {} AS a))",
)


def refused(statement: str) -> EngineError:
    with pytest.raises(EngineError) as found:
        judge(statement, RELATIONS)
    assert found.value.condition == "XSCL_SQL"
    return found.value


def tokens(text: str) -> list[tuple[str, str]]:
    found = [(str(match.lastgroup), match[0]) for match in LEXER.finditer(text)]
    assert "".join(token for _, token in found) == text
    return [(kind, token) for kind, token in found if kind not in ("gap", "comment")]


def own_text(judged: Judged) -> str:
    """The statement in what Spark gets."""
    return judged.text[judged.text.index("(\n") + 2 : -2]


@pytest.mark.parametrize("statement", ALLOWED)
def test_statements_that_read_are_handed_on_as_they_are(statement: str) -> None:
    judged = judge(statement, RELATIONS)
    if judged.kind == "query":
        given = [token for token in tokens(statement.rstrip().rstrip(";")) if token[1]]
        if "/*" not in statement and statement.isascii():
            assert tokens(own_text(judged)) == given
        # A place that Spark tells of is one in the statement.
        assert judged.text.startswith("SELECT * FROM (\n") and judged.lines_before == 1
        assert own_text(judged).count("\n") == statement.rstrip().rstrip(";").strip().count("\n")


@pytest.mark.parametrize("statement", REFUSED)
def test_all_other_statements_are_refused(statement: str) -> None:
    refused(statement)


def test_the_corpus_is_large() -> None:
    assert len({*ALLOWED, *REFUSED}) == len(ALLOWED) + len(REFUSED) >= 150


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_no_wrapping_hides_what_is_refused(wrapping: str) -> None:
    for harm in HARM:
        refused(wrapping.format(harm, harm))
    for harmless in HARMLESS:
        judge(wrapping.format(harmless, harmless), RELATIONS)


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(st.sampled_from([w for w in WRAPPINGS if w.startswith("SELECT") and "\n" not in w]), max_size=4), st.data()
)
def test_wrappings_in_wrappings(wrappings: list[str], data: st.DataObject) -> None:
    harm = data.draw(st.sampled_from(HARM))
    case = data.draw(st.sampled_from([str, str.upper, str.swapcase]))
    if "`" not in harm and "'" not in harm:
        harm = case(harm)
    gap = data.draw(st.sampled_from(["", " ", "\n", "/**/", "/* ' */", "--'\n", "\t"]))
    expression = harm.replace("(", gap + "(")
    harmless = "upper('a')"
    for wrapping in wrappings:
        expression = f"(SELECT max(v) FROM ({wrapping.format(expression, 1)}))"
        harmless = f"(SELECT max(v) FROM ({wrapping.format(harmless, 1)}))"
    judge(f"SELECT {harmless}", RELATIONS)
    refused(f"SELECT {expression}")


PIECES = [
    *("SELECT", "FROM", "events", "WITH", "AS", "(", ")", ",", "'", '"', "`", "\\", "/*", "*/", "--", "\n", ";", " "),
    *(
        "reflect",
        "reflect(",
        "`reflect`",
        "USING",
        "TRANSFORM",
        "MAP",
        "'a'",
        "r'",
        "x",
        ".",
        "1",
        "->",
        "*",
        "/*+",
        "${",
    ),
    *(
        "upper(",
        "transform(",
        "explode(",
        "LATERAL VIEW",
        "JOIN",
        "t(a)",
        "\u017felect",
        "re\ufb02ect(",
        "\u00a0",
        "\x00",
    ),
]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_random_texts_call_nothing_that_is_refused(pieces: list[str]) -> None:
    """Whatever is admitted, Spark's lexer finds no call in it but of functions that are allowed and aliases."""
    from xscl.answers.sql.functions import FUNCTIONS

    try:
        judged = judge("SELECT " + "".join(pieces), RELATIONS)
    except EngineError as error:
        assert error.condition == "XSCL_SQL"
        return
    found = tokens(judged.text)
    assert not any(kind == "comment" for kind, _ in found) and "${" not in re.sub(
        r"'[^']*'|\"[^\"]*\"", "", judged.text
    )
    depth = 0
    for (kind, text), (_, after) in zip(found, [*found[1:], ("", "")], strict=True):
        depth += (text == "(") - (text == ")")
        assert depth >= 0
        if after == "(" and kind in ("word", "quoted", "string"):
            name = text.strip("`").lower()
            assert kind != "string"
            assert (
                name in FUNCTIONS or name in judged.listed_aliases or (kind == "word" and name in QUERY_WORDS.split())
            ), text
    assert depth == 0


def test_names_of_what_a_statement_reads() -> None:
    judged = judge("WITH m AS (SELECT qid FROM Matches) SELECT m.qid FROM m JOIN queries q USING (qid)", RELATIONS)
    assert judged.relations == {"matches", "queries"}
    assert judged.columns is not None and "qid" in judged.columns and "ts_max" not in judged.columns
    for everything in (
        "SELECT * FROM matches",
        "SELECT m.* FROM matches m",
        "SELECT struct(*) FROM matches",
        "SELECT count(m.*) FROM matches m",
        "SELECT 1 FROM matches NATURAL JOIN queries",
        "SELECT a FROM matches AS t(a, b, c)",
        "SELECT * FROM (SELECT qid FROM matches) PIVOT (count(*) FOR qid IN ('a'))",
        "SELECT * EXCEPT (qid) FROM matches",
    ):
        assert judge(everything, RELATIONS).columns is None, everything
    assert judge("SELECT count(*) FROM matches", RELATIONS).columns is not None


def test_a_table_expression_is_known_where_it_is_in_scope() -> None:
    judge(
        "WITH a AS (SELECT 1 AS x) SELECT * FROM a WHERE x IN (WITH b AS (SELECT x FROM a) SELECT * FROM b)", RELATIONS
    )
    refused("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a), a")
    refused("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a")
    refused("WITH a AS (SELECT * FROM a) SELECT * FROM a")


def test_further_names_are_asked_for_when_they_are_needed() -> None:
    asked = []

    def more() -> list[str]:
        asked.append(1)
        return ["owners"]

    judge("SELECT * FROM events", RELATIONS, more)
    assert not asked
    assert judge("SELECT * FROM events JOIN Owners USING (id)", RELATIONS, more).relations == {"events", "owners"}
    assert asked == [1]


def test_refusals_say_what_and_where() -> None:
    assert "did you mean matches?" in str(refused("SELECT * FROM match"))
    assert "'reflect'" in str(refused("SELECT Reflect('a', 'b')"))
    assert "line 2, column 13" in str(refused("SELECT 1\nFROM events |> WHERE id"))
    assert "second one" in str(refused("SELECT 1; SELECT 2"))
    assert "hint" in str(refused("SELECT /*+ BROADCAST(e) */ * FROM events e"))
    assert "DROP" in str(refused("DROP VIEW events"))


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        ("SELECT count(*) FROM matches", "SELECT coalesce(sum(counted_rows), 0L) AS `count(1)` FROM matches"),
        (
            "SELECT qid, COUNT ( 1 ) AS n FROM matches m WHERE m.batch > 3 GROUP BY qid ORDER BY n",
            "SELECT qid, coalesce(sum(counted_rows), 0L) AS n FROM matches m WHERE m.batch > 3 GROUP BY qid ORDER BY n",
        ),
        (
            "SELECT batch FROM matches GROUP BY batch HAVING count(*) > 1",
            "SELECT batch FROM matches GROUP BY batch HAVING coalesce(sum(counted_rows), 0L) > 1",
        ),
        ("SELECT count(*) + 1 FROM matches", None),
        ("SELECT count(ts_max) FROM matches", None),
        ("SELECT count(DISTINCT qid) FROM matches", None),
        ("SELECT count(*), max(batch) FROM matches", None),
        ("SELECT count(*) FROM matches WHERE ts_max > 1", None),
        ("SELECT qid AS ts_max, count(*) FROM matches GROUP BY ts_max", None),
        ("SELECT count(*) FILTER (WHERE batch > 1) FROM matches", None),
        ("SELECT count(*) OVER () FROM matches", None),
        ("SELECT count(*) FROM matches JOIN queries USING (qid)", None),
        ("SELECT count(*) FROM matches TABLESAMPLE (10 PERCENT)", None),
        ("SELECT count(*) FROM events", None),
        ("SELECT qid FROM matches", None),
        ("SELECT count(*) FROM (SELECT qid FROM matches)", None),
        ("SELECT DISTINCT count(*) FROM matches GROUP BY qid", None),
        ("SELECT count(*) FROM matches GROUP BY nodes", None),
        ("WITH matches AS (SELECT 1 AS qid) SELECT count(*) FROM matches", None),
    ],
)
def test_statements_that_only_count_matches(statement: str, counts: str | None) -> None:
    judged = judge(statement, RELATIONS)
    assert judged.counts == (None if counts is None else f"SELECT * FROM (\n{counts}\n)")


@pytest.mark.parametrize("statement", ["EXPLAIN secret", "CALL secret()", "EXPLAIN secret \x1b[31m \n{}"])
def test_refused_statements_are_not_logged(statement: str, caplog: pytest.LogCaptureFixture) -> None:
    refused(statement)
    assert caplog.records == []
