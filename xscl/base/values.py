"""Values as queries compare them: numbers, canonical URLs, the functions of atoms, and hashes.

A leaf module, which everything may import, so that a function has one meaning for standing and historical answers and
for feed items alike (docs/reference/language.md, Joins; numbers: docs/explanation/architecture.md, From text to rows).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from xxhash import xxh64_digest, xxh64_intdigest

from xscl.base.own_functions import is_own, own_text, returns_numbers
from xscl.base.types import format_time, to_micros

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

__all__ = [
    "COMPARISONS",
    "FUNCTIONS",
    "apply_functions",
    "canonical_url",
    "column_text",
    "digest_bytes",
    "digest_text",
    "exact_number",
    "hash64",
    "host",
    "normalize_space",
    "number_text",
    "own_value",
    "text_hashes",
    "time_key",
    "to_number",
    "value_hash",
    "value_hashes",
    "written_digits",
]

COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "=": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
)
"""Comparisons by their operators."""

_XPATH_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*\Z")
_MOST_DIGITS = 1_000
"""Longer ones would be an attack on whoever computes with them."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_XML_SPACE = re.compile(r"[ \t\r\n]+")
_TRACKING = re.compile(r"utm_.*|fbclid|gclid", re.IGNORECASE)
_PLAIN_URL = re.compile(r"https?:(//[a-z0-9-]+(?:\.[a-z0-9-]+)*(?:/[A-Za-z0-9/%:@!$&'()*+,;=\-._~]*)?)")
"""Most addresses: only their scheme and their end may have to be changed."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


def to_number(text: str) -> float | None:
    """Return XPath 1.0 ``number()`` of a string, with None for NaN.

    >>> to_number(" -1.50 "), to_number("1e3"), to_number("+5"), to_number("")
    (-1.5, None, None, None)
    """
    found = _XPATH_NUMBER.match(text)
    if not found or len(found[1]) > _MOST_DIGITS:
        return None
    value = float(found[1])
    return value if math.isfinite(value) else None


def number_text(text: str) -> str | None:
    """Return the one text of a number, exact; None where ``text`` is no number, or one of more than a thousand digits.

    Two strings denote the same number iff their number texts are equal.

    >>> number_text("101.50"), number_text("-0"), number_text("12345678901234567890"), number_text("x")
    ('101.5', '0', '12345678901234567890', None)
    """
    found = _XPATH_NUMBER.match(text)
    if not found or len(found[1]) > _MOST_DIGITS:
        return None
    sign, digits = ("-", found[1][1:]) if found[1].startswith("-") else ("", found[1])
    whole, _, fraction = digits.partition(".")
    whole = whole.lstrip("0") or "0"
    fraction = fraction.rstrip("0")
    plain = f"{whole}.{fraction}" if fraction else whole
    return plain if plain == "0" else sign + plain


def column_text(value: bool | int | float | Decimal | str) -> str:
    """Return the string value of a row's column: numbers in their shortest decimal form.

    >>> column_text(101), column_text(101.5), column_text(1e21), column_text(True), column_text(3.0)
    ('101', '101.5', '1000000000000000000000', 'true', '3')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    text = format(Decimal(repr(value)) if isinstance(value, float) else Decimal(value), "f")
    return number_text(text) or text


def exact_number(text: str) -> float | Decimal:
    """Return the number that a text says: as a double if its shortest form is that number, else as a decimal.

    Raises:
        ArithmeticError: the text has more digits than can be read.

    >>> exact_number("0.10"), exact_number("0.1000000000000000055511151231257827")
    (0.1, Decimal('0.1000000000000000055511151231257827'))
    """
    number = float(text)
    if repr(number) == text:
        return number
    exact = Decimal(text)
    return number if exact == Decimal(repr(number)) else exact


def written_digits(number: Decimal) -> int:
    """Return how many digits a finite decimal has, written without an exponent.

    >>> written_digits(Decimal("0.05")), written_digits(Decimal("1E+999999999"))
    (3, 1000000000)
    """
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = len(digits) + exponent if number else 1
    return max(whole, 1) + max(-exponent, 0)


def time_key(text: str) -> str | None:
    """Return a text by which times are ordered, of a time (ISO 8601 with a zone) or a date; None for anything else.

    A date is its midnight in UTC.

    >>> time_key("2026-01-01T00:00:00.5Z"), time_key("2026-01-01"), time_key("2026-01-01T01:00:00+01:00")
    ('2026-01-01T00:00:00.5', '2026-01-01T00:00:00', '2026-01-01T00:00:00')
    """
    try:
        # Without the Z, a longer fraction comes after its beginning.
        return format_time(to_micros(f"{text}T00:00:00Z" if _DATE.match(text) else text))[:-1]
    except ValueError:
        return None


def normalize_space(text: str) -> str:
    r"""Apply XPath's ``normalize-space()``.

    >>> normalize_space("  a \n b ")
    'a b'
    """
    return _XML_SPACE.sub(" ", text).strip(" ")


def host(text: str) -> str | None:
    """Return the host of a URL in lower case; None where there is none.

    >>> host("https://Example.org:443/a"), host("no url")
    ('example.org', None)
    """
    try:
        return urlsplit(text.strip()).hostname or None
    except ValueError:
        return None


def canonical_url(text: str) -> str | None:
    """Return one text for all spellings of a web address; None for an empty string.

    Host in lower case; default port, fragment, trailing ``/`` and tracking parameters removed; query sorted;
    ``http`` written as ``https``.  Other texts are only stripped of white space, so that
    ``url(x) = url(y)`` still compares them.

    >>> canonical_url("HTTP://Example.org:80/a/?utm_source=x&b=2&a=1#top")
    'https://example.org/a?a=1&b=2'
    """
    text = text.strip()
    if not text:
        return None
    if (plain := _PLAIN_URL.fullmatch(text)) is not None:
        return "https:" + plain[1].rstrip("/")
    return _canonical_url(text)


def _canonical_url(text: str) -> str:
    """Do what ``canonical_url`` does for a text that is not empty and has no white space around it."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return text
    scheme = parts.scheme.lower()
    if scheme not in _DEFAULT_PORTS or not parts.hostname:
        return text
    name = parts.hostname
    netloc = f"[{name}]" if ":" in name else name
    if port is not None and port != _DEFAULT_PORTS[scheme]:
        netloc += f":{port}"
    if parts.username:
        netloc = f"{parts.username}@{netloc}"
    kept = [(k, v) for k, v in parse_qsl(parts.query, keep_blank_values=True) if not _TRACKING.fullmatch(k)]
    path = quote(parts.path, safe="/%:@!$&'()*+,;=-._~", errors="replace").rstrip("/")
    return urlunsplit(("https", netloc, path, urlencode(sorted(kept), errors="replace"), ""))


FUNCTIONS: Mapping[str, Callable[[str], str | None]] = MappingProxyType(
    {
        "": lambda text: text,
        "number": number_text,
        "time": time_key,
        "lower": str.lower,
        "normalize-space": normalize_space,
        "string-length": lambda text: str(len(text)),
        "host": host,
        "url": canonical_url,
    }
)
"""Functions on a side of an atom, by name, and ``string-length``, which brackets have.

``''`` is the string value itself, ``number`` the exact number, ``time`` what times are ordered by.

A function that gives None has no value there, and satisfies no comparison.
"""


def apply_functions(names: str, text: str) -> str | None:
    """Apply nested functions written outermost first and joined by spaces (``lower normalize-space``).

    >>> apply_functions("lower normalize-space", "  A  B ")
    'a b'
    """
    value: str | None = text
    for name in reversed(names.split(" ")):
        if value is None:
            return None
        value = own_value(name, value) if is_own(name) else FUNCTIONS[name](value)
    return value


def own_value(name: str, text: str) -> str | None:
    """Return what a function of one's own gives for a text; a number has its one text.

    Raises:
        FunctionFailedError: it fails.
    """
    found = own_text(name, text)
    return number_text(found) if found is not None and returns_numbers(name) else found


def hash64(text: str) -> int:
    """Return a signed 64-bit hash, the same in every process and home."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)


def value_hash(text: str) -> int:
    """Return the signed 64-bit hash by which values are joined: XXH64 of the UTF-8 bytes, as Spark's ``xxhash64``.

    >>> value_hash("a")
    -8582455328737087284
    """
    digest = xxh64_intdigest(text.encode("utf-8", "surrogatepass"), 42)
    return digest - (1 << 64) if digest >> 63 else digest


def value_hashes(texts: Sequence[str | None]) -> npt.NDArray[np.int64]:
    """Return the ``value_hash`` of each of many values; 0 where there is none."""
    import numpy as np  # most commands hash nothing

    try:
        digests = [0 if text is None else xxh64_intdigest(text.encode(), 42) for text in texts]
    except UnicodeEncodeError:  # half a surrogate pair
        return np.array([0 if text is None else value_hash(text) for text in texts], dtype=np.int64)
    return np.array(digests, dtype=np.uint64).view(np.int64)


def text_hashes(texts: pa.StringArray) -> npt.NDArray[np.int64]:
    """Return the ``value_hash`` of each text of an array; 0 for NULL."""
    import numpy as np  # most commands hash nothing
    import pyarrow as pa

    some = texts.fill_null("") if texts.null_count else texts
    # Bytes cost less than numbers, of which each would be looked at once more.
    digests = b"".join([xxh64_digest(text, 42) for text in some.cast(pa.binary()).to_pylist()])
    found = np.frombuffer(digests, dtype=">i8").astype(np.int64)
    if texts.null_count:
        found[texts.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def digest_text(*parts: str, size: int = 16) -> str:
    """Return a hex digest of a sequence of strings; no two sequences run together.

    >>> digest_text("ab", "c") == digest_text("a", "bc")
    False
    """
    state = blake2b(digest_size=size)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


def digest_bytes(data: bytes) -> str:
    """Return the digest of one text in UTF-8.

    >>> digest_bytes("é".encode()) == digest_text("é")
    True
    """
    state = blake2b(len(data).to_bytes(8, "big"), digest_size=16)
    state.update(data)
    return state.hexdigest()
