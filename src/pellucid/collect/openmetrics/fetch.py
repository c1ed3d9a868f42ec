"""A metrics page over HTTP. What goes wrong is a reason, not an exception: the page of a loaded engine comes late.

    fetch(client, "http://localhost:8000/metrics") → Fetched(text, took_ns) or Fetched(fault=Fault("5xx", "HTTP 503 …"))
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from pellucid.collect.openmetrics.address import Endpoint
from pellucid.collect.openmetrics.translate import status_class

ACCEPT = "text/plain;version=0.0.4"       # the one format that every exporter has
MOST_BYTES = 64 * 2**20                    # the largest page seen was 0.1 MiB; more than this is no metrics page


@dataclass(frozen=True, slots=True)
class Fault:
    reason: str                            # 4xx, 429, 5xx, timeout, refused, not_text
    says: str


@dataclass(frozen=True, slots=True)
class Fetched:
    text: str = ""
    took_ns: int = 0
    fault: Fault | None = None


def client(at: Endpoint, headers: Mapping[str, str], timeout_s: float) -> httpx.Client:
    return httpx.Client(
        headers={"Accept": ACCEPT, "User-Agent": "pellucid", **headers}, auth=at.auth, timeout=timeout_s,
        follow_redirects=True,
    )  # fmt: skip


def fetch(http: httpx.Client, url: str) -> Fetched:
    began_ns = time.monotonic_ns()
    try:
        reply = http.get(url)
    except httpx.TimeoutException:
        return _failed("timeout", f"no answer within {http.timeout.read:g} s")
    except httpx.HTTPError as error:
        return _failed("refused", str(error) or type(error).__name__)
    took_ns = time.monotonic_ns() - began_ns
    if reply.status_code != 200:
        hint = HINTS.get(reply.status_code, "")
        return _failed(status_class(str(reply.status_code)) or "refused", f"HTTP {reply.status_code}{hint}")
    if reply.headers.get("content-type", "").startswith("application/json"):
        return _failed("not_text", "the page is JSON, and reading such a page can take it from others; the text may be "
                                   "at /prometheus/metrics")  # fmt: skip
    if len(reply.content) > MOST_BYTES:
        return _failed("not_text", f"{len(reply.content)} bytes are no metrics page")
    return Fetched(reply.text, took_ns)


HINTS = {
    401: ": it wants a password or token. Try: PELLUCID_AUTHORIZATION='Bearer …' in the environment, or --header",
    403: ": the password or token does not allow it",
    404: ": there is no metrics page at this address; engines may have to be told to serve one",
}


def version(http: httpx.Client, at: Endpoint, path: str) -> str:
    """The engine's own word on its version, "" where it has none."""
    if not path:
        return ""
    try:
        said = http.get(at.base() + path).json()
    except (httpx.HTTPError, ValueError):
        return ""
    found = said.get("version") if isinstance(said, dict) else None
    return found if isinstance(found, str) else ""


def _failed(reason: str, says: str) -> Fetched:
    return Fetched(fault=Fault(reason, says))
