"""What a user types for an engine → the address of its metrics page, and a name without secrets.

    endpoint("localhost:8000").url                       == "http://localhost:8000/metrics"
    endpoint("https://ada:pw@llm.example/v1").name       == "llm.example"
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

from pellucid.core.errors import AskedWrongly

API_PATHS = ("", "/", "/v1", "/v1/")     # where people have a client's base URL


@dataclass(frozen=True, slots=True)
class Endpoint:
    url: str                                                     # without user and password
    name: str                                                    # host:port
    auth: tuple[str, str] | None = field(default=None, repr=False)

    def base(self) -> str:
        return urlunsplit((*urlsplit(self.url)[:2], "", "", ""))


def endpoint(text: str, path: str = "/metrics") -> Endpoint:
    """`path` is put where the user gave none. Raises AskedWrongly on what is no HTTP address."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise AskedWrongly(f"{_shown(text)} is not an address: {error}. Write it as http://host:port") from error
    if parts.scheme not in ("http", "https") or not host:
        raise AskedWrongly(f"{_shown(text)} is not an HTTP address. Write it as http://host:port")
    host = f"[{host}]" if ":" in host else host
    name = f"{host}:{port}" if port else host
    wanted = path if parts.path in API_PATHS else parts.path
    auth = (parts.username, parts.password or "") if parts.username else None
    return Endpoint(urlunsplit((parts.scheme, name, wanted, parts.query, "")), name, auth)


def _shown(text: str) -> str:
    """What was typed, without a password in it."""
    return repr(text.rsplit("@", 1)[-1])
