"""The page on which the home's relations are read with SQL."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from xscl.base.errors import XsclError
from xscl.service.api.calls import Reader, Running
from xscl.service.api.sql import Rows, Statement
from xscl.service.api.sql import answer as answered
from xscl.service.console.pages import Form, is_part, new_router, page
from xscl.service.console.plots import Bar, Curve, bars, curve
from xscl.service.problems import problem_of

__all__ = ["router"]

router = new_router()

_ROWS = 200
_LONGEST = 100_000
_EXAMPLES = (
    "SELECT qid, count(*) AS matches FROM matches GROUP BY qid ORDER BY matches DESC",
    "SELECT batch, events, matches, join_s FROM batches ORDER BY batch DESC LIMIT 20",
    "SELECT channel, count(*) AS events FROM events GROUP BY channel",
)


@router.get("/sql")
def sql_page(
    request: Request, service: Running, holder: Reader, sql: Annotated[str, Query(max_length=_LONGEST)] = ""
) -> Response:
    """Show the form for a statement."""
    return page(request, "sql.html", sql=sql, answer=None, problem=None, bars=[], curve=None, examples=_EXAMPLES)


@router.post("/sql")
async def run(request: Request, form: Form, service: Running, holder: Reader) -> Response:
    """Run a statement, and show its rows."""
    text = form.get("sql", "").strip()[:_LONGEST]
    answer: Rows | None = None
    problem = None
    if text:
        try:
            answer = await answered(Statement(sql=text, limit=_ROWS), request, service, holder)
        except XsclError as error:
            problem = problem_of(error)
    template = "part_rows.html" if is_part(request) else "sql.html"
    line: Curve | None = None
    drawn: list[Bar] = []
    if answer is not None:
        line = curve([(column.name, column.type) for column in answer.columns], answer.rows)
        drawn = [] if line else bars(answer.rows)
    told = {"answer": answer, "problem": problem, "bars": drawn, "curve": line}
    return page(request, template, told, sql=text, examples=_EXAMPLES)
