"""HEAD: whatever answers GET answers HEAD by the same headers, without the content."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["HeadAnswers", "has_head"]


def has_head(path: str) -> bool:
    """Tell whether GET of a path has an end: live streams have none.

    >>> has_head("/queries/same/feed.atom"), has_head("/v1/matches/stream")
    (True, False)
    """
    return not path.endswith("/stream")


class HeadAnswers:
    """Has an application answer HEAD as GET, and leaves the content out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or not has_head(scope["path"]):
            await self._app(scope, receive, send)
            return

        async def headers_alone(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "method": "GET"}, receive, headers_alone)
