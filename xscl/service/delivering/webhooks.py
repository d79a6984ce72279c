"""Webhooks: requests that bring matches to an address, signed, and what their answers mean."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from xscl.base.errors import SourceError
from xscl.base.shown import bounded_message
from xscl.base.values import digest_text
from xscl.catalog.deliveries import Delivery
from xscl.ingest.fetch import Exchange, Fetcher
from xscl.ingest.http_times import retry_after
from xscl.service.delivering.pages import Page

__all__ = ["SIGNATURE", "Failure", "Retries", "post_page", "signature"]

SIGNATURE = "X-Xscl-Signature"
"""Header with the time and the signature of a request."""
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Retries:
    """Pauses between attempts, and how many there are; times in seconds."""

    first_s: float = 0.5
    """Pause after the first failure; each further one is twice as long, as far as the others allow."""
    soon_s: float = 2.0
    """Longest pause at first: a target that fails now and then is not left alone for long."""
    most_s: float = 3_600.0
    attempts: int = 100
    """Attempts after which matches are given up."""
    within_s: float = 86_400.0
    """Time after the first failure after which they are given up, too."""

    def pause_s(self, failures: int, failing_s: float, chance: float) -> float:
        """Return the pause behind so many failures, between half of it and all of it by chance (0 to 1).

        A pause is at most a quarter of the time ``failing_s`` since the first failure, once that is longer.
        """
        whole = min(self.first_s * 2.0 ** min(failures - 1, 40), max(self.soon_s, failing_s / 4), self.most_s)
        return float(whole * (0.5 + chance / 2))

    def is_last(self, delivery: Delivery, now: int) -> bool:
        """Tell whether one more failure is the last."""
        since = now if delivery.failing is None else delivery.failing
        return delivery.failures + 1 >= self.attempts or now - since >= self.within_s * _SECOND


@dataclass(frozen=True, slots=True)
class Failure:
    """Reason why a target did not take a page."""

    problem: str
    wait_s: float = 0.0
    """Seconds for which the target wants to be left alone."""


def signature(secret: str, body: bytes, at: int) -> str:
    """Sign a body sent at a time in seconds.

    >>> signature("k", b"{}", 7)[:14]
    't=7,v1=676b269'
    """
    found = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={found}"


async def post_page(fetcher: Fetcher, delivery: Delivery, page: Page, now: int) -> Failure | None:
    """Send a page to a delivery's address; return why it was not taken, or None."""
    at = now // _SECOND
    headers = {
        "Content-Type": "application/x-ndjson",
        "Idempotency-Key": digest_text(delivery.name, *page.cursors),
        "X-Xscl-Delivery": quote(delivery.name),
        "X-Xscl-Query": quote(delivery.query),
        "X-Xscl-Matches": str(len(page.cursors)),
        SIGNATURE: signature(delivery.secret or "", page.body, at),
    }
    found = await fetcher.post(delivery.target, page.body, headers, allow_private=delivery.private)
    return _failure(found, found.headers, now)


def _failure(found: Exchange, headers: Mapping[str, str], now: int) -> Failure | None:
    if found.problem is not None:
        return Failure(bounded_message(str(found.problem)))
    status = found.status or 0
    if 200 <= status < 300:
        return None
    if 300 <= status < 400:
        told = SourceError("XSCL_REDIRECT", f"{found.url} answered {status}; redirects of webhooks are not followed")
    else:
        told = SourceError("XSCL_HTTP_STATUS", f"{found.url} answered {status}")
    asked = retry_after(headers, now)
    return Failure(bounded_message(str(told)), 0.0 if asked is None else asked / _SECOND)
