"""Pages of the console: their templates, files and headers, forms, and refusals as pages."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xscl import __version__
from xscl.base.errors import XsclError
from xscl.base.types import format_time
from xscl.service.access import holder_of
from xscl.service.problems import Refused, problem_of

__all__ = ["Form", "is_part", "new_router", "page", "part", "problem_page", "router"]

_HERE = Path(__file__).parent
_POLICY = "Content-Security-Policy"
_HEADERS = {
    _POLICY: "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # Without a referrer, browsers hide the origin of forms too.
    "Referrer-Policy": "same-origin",
}
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_FILES = {path.name: path.read_bytes() for path in sorted((_HERE / "static").iterdir()) if path.suffix in _TYPES}
_VERSIONS = {name: hashlib.sha256(data).hexdigest()[:12] for name, data in _FILES.items()}
_FORM = 1_000_000
"""Bytes of a form at most."""
_FIELDS = 50
_BOUNDARY = re.compile(r'boundary="?([^";,\s]+)')
_PART_NAME = re.compile(rb'[;\s]name="([^"]*)"')
_LINKS = ("http://", "https://")


def _static(name: str) -> str:
    return f"/static/{name}?v={_VERSIONS[name]}"


def _moment(micros: int) -> str:
    """Write a time for people: UTC, in seconds."""
    return format_time(micros - micros % 1_000_000).replace("T", " ").removesuffix("Z")


def _link(text: object) -> str:
    """Return an address that may be a link; '' for all others, such as ``javascript:``."""
    address = str(text).strip()
    return address if address.lower().startswith(_LINKS) else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if isinstance(value, int) or value >= 1_000 else f"{value:,.3g}"


def _path(text: object) -> str:
    """Write a name as one segment of a path."""
    return quote(str(text), safe="")


_templates = Environment(
    loader=FileSystemLoader(_HERE / "html"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_templates.filters.update(moment=_moment, link=_link, number=_number, path=_path)
_templates.globals.update(static=_static, version=__version__)


def page(
    request: Request,
    template: str,
    told: Mapping[str, object] = MappingProxyType({}),
    *,
    status: int = 200,
    has_editor: bool = False,
    **values: object,
) -> HTMLResponse:
    """Make a page of a template; one with an editor allows the rules that the editor writes for its looks."""
    settings = request.app.state.service.settings
    common = {"holder": holder_of(request), "auth": settings.auth, "here": request.url.path}
    headers = _HEADERS
    if has_editor:
        common["nonce"] = nonce = secrets.token_urlsafe(16)
        policy = _HEADERS[_POLICY].replace("style-src 'self'", f"style-src 'self' 'nonce-{nonce}'")
        headers = {**_HEADERS, _POLICY: policy}
    text = _templates.get_template(template).render({**common, **told, **values})
    return HTMLResponse(text, status_code=status, headers=headers)


def part(template: str, **values: object) -> str:
    """Write a part of a page."""
    return _templates.get_template(template).render(values)


def is_part(request: Request) -> bool:
    """Return whether a page asks for a part of itself rather than for a whole page."""
    return "hx-request" in request.headers


def problem_page(request: Request, error: XsclError) -> HTMLResponse:
    """Make the page of a refusal."""
    problem = problem_of(error)
    return page(request, "problem.html", status=int(str(problem["status"])), problem=problem)


class _PageRoute(APIRoute):
    """Routes of pages; a refusal is a page too."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handled(request: Request) -> Response:
            try:
                return await handle(request)
            except XsclError as error:
                return problem_page(request, error)
            except RequestValidationError as error:
                first = error.errors()[0]
                told = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
                return problem_page(request, Refused(422, "XSCL_BAD_REQUEST", told))

        return handled


def new_router() -> APIRouter:
    """Make a router for pages, which the description of the API leaves out."""
    return APIRouter(route_class=_PageRoute, include_in_schema=False)


async def _form(request: Request) -> dict[str, str]:
    """Read a form; of several values of a name the last one counts.

    Raises:
        Refused: ``XSCL_BODY_LIMIT``, ``XSCL_BAD_REQUEST``.
    """
    body = await request.body()
    if len(body) > _FORM:
        raise Refused(413, "XSCL_BODY_LIMIT", f"a form has at most {_FORM:,} bytes")
    if request.headers.get("content-type", "").startswith("multipart/form-data"):
        return _parts(request.headers["content-type"], body)
    try:
        fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        raise Refused(400, "XSCL_BAD_REQUEST", "the form cannot be read") from None
    # Browsers write ends of lines as two characters; columns and ids would count them.
    return {name: value.replace("\r\n", "\n") for name, value in fields}


def _parts(kind: str, body: bytes) -> dict[str, str]:
    """Read a form with files, which are texts here.

    Raises:
        Refused: ``XSCL_BAD_REQUEST``.
    """
    boundary = _BOUNDARY.search(kind)
    if boundary is None:
        raise Refused(400, "XSCL_BAD_REQUEST", "the form cannot be read")
    found = {}
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary[1].encode("latin-1"))[1:-1][:_FIELDS]:
        head, _, data = part.partition(b"\r\n\r\n")
        if (name := _PART_NAME.search(head)) is None:
            raise Refused(400, "XSCL_BAD_REQUEST", "the form cannot be read")
        # Bytes of files in other encodings are kept, so that whoever reads the file finds them.
        faults = "surrogateescape" if b"filename=" in head else "replace"
        text = data.decode("utf-8", faults)
        found[name[1].decode("ascii", "replace")] = text if b"filename=" in head else text.replace("\r\n", "\n")
    return found


Form = Annotated[dict[str, str], Depends(_form)]
"""Fields of a form."""

router = new_router()


@router.get("/static/{name}")
async def static_file(name: str) -> Response:
    """Give a file of the console, which never changes under its name and version."""
    data = _FILES.get(name)
    if data is None:
        raise Refused(404, "XSCL_NO_SUCH_CALL", f"the console has no file {name!r}")
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(data, media_type=_TYPES[Path(name).suffix], headers=headers)
