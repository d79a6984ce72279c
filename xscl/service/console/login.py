"""Pages on which a token is given and taken back."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from xscl.catalog.tokens import read_token
from xscl.service.access import COOKIE
from xscl.service.api.calls import Running
from xscl.service.console.pages import Form, new_router, page

__all__ = ["router"]

router = new_router()

_DAYS = 30
"""Days for which a browser keeps a token."""


def _inside(path: str) -> str:
    """Return a path of this console; a path that would lead elsewhere becomes the overview."""
    leads_away = not path.startswith("/") or path.startswith("//") or "\\" in path or not path.isprintable()
    return "/" if leads_away else path


@router.get("/login")
def login_page(request: Request, next: str = "/") -> Response:
    """Show the form for a token."""
    return page(request, "login.html", next=_inside(next), refused=False)


@router.post("/login")
def login(request: Request, form: Form, service: Running) -> Response:
    """Keep a token in the browser, where scripts cannot read it."""
    token, then = form.get("token", "").strip(), _inside(form.get("next", "/"))
    if service.home.catalog.ask(read_token, token) is None:
        return page(request, "login.html", status=401, next=then, refused=True)
    answer = RedirectResponse(then, status_code=303)
    secure = request.headers.get("origin", "").startswith("https:")
    answer.set_cookie(COOKIE, token, max_age=_DAYS * 86_400, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
def logout(request: Request) -> Response:
    """Have the browser forget its token."""
    answer = RedirectResponse("/login", status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
