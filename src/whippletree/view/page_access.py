"""Who may open the live page: requests that name this machine, from the page itself.

A page on 127.0.0.1 can be reached by any site that a browser has open: by a request from its own page (``Origin``), or
under a name of its own that it lets point to 127.0.0.1 (``Host``). Both headers are checked before anything is
answered, for files as for the connection that carries the scene.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of this machine that cannot point elsewhere."""

EVERYWHERE = ("0.0.0.0", "::")
"""Hosts that mean every network of this machine."""

_one_at_a_time = threading.Lock()


def refusal(host: str | None, origin: str | None, served: str, names: Collection[str] = ()) -> str:
    """Why a request is refused; empty if it is not.

    Args:
        host: its ``Host``.
        origin: its ``Origin``; None where there is none, as in a request that no page has caused.
        served: the address at which the page is served.
        names: further names under which it may be opened.
    """
    name = _name(f"//{host}") if host else ""
    if not name or not _is_known(name, served, names):
        return f"Host {host!r} is not where this page is served: open it at {served}, or give the name to show(hosts=)"
    if origin is not None and urlsplit(origin).netloc.lower() != (host or "").lower():
        return f"Origin {origin!r} is another page than the one at {host!r}"
    return ""


def _is_known(name: str, served: str, names: Collection[str]) -> bool:
    if name in (*LOOPBACK, served.lower(), *[own.lower() for own in names]):
        return True
    return served in EVERYWHERE and _is_address(name)  # a number cannot be made to point elsewhere


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


@contextmanager
def guarded(served: str, names: Collection[str] = ()) -> Iterator[None]:
    """Let servers that are started within check every request; viser has no setting for it."""
    from websockets.asyncio import server

    with _one_at_a_time:
        usual: Any = server.serve
        server.serve = _checking(usual, served, names)  # type: ignore[misc, assignment]
        try:
            yield
        finally:
            server.serve = usual  # type: ignore[misc]


def _checking(serve: Callable[..., Any], served: str, names: Collection[str]) -> Callable[..., Any]:
    """The function that starts a server, with a check before the server's own answer to a request."""

    def start(*arguments: Any, process_request: Callable[..., Any] | None = None, **options: Any) -> Any:
        def check(connection: Any, request: Any) -> Any:
            hosts, origins = (request.headers.get_all(word) for word in ("Host", "Origin"))
            single = len(hosts) == 1 and len(origins) <= 1
            why = refusal(hosts[0] if single else None, origins[0] if single and origins else None, served, names)
            if why:
                return connection.respond(HTTPStatus.FORBIDDEN, f"{why}\n")
            return None if process_request is None else process_request(connection, request)

        return serve(*arguments, process_request=check, **options)

    return start
