"""The live page answers this machine and itself, not other sites that a browser has open."""

from __future__ import annotations

import http.client
import socket

import pytest

import whippletree as wt
from whippletree.view.live import refusal

viser = pytest.importorskip("viser")


@pytest.mark.parametrize(
    ("host", "origin", "served", "allowed"),
    [
        ("127.0.0.1:8080", None, "127.0.0.1", True),
        ("localhost:9000", "http://localhost:9000", "127.0.0.1", True),  # through a tunnel
        ("[::1]:8080", None, "127.0.0.1", True),
        ("evil.example:8080", None, "127.0.0.1", False),  # a name that was made to point here
        ("127.0.0.1.evil.example:8080", None, "127.0.0.1", False),
        ("localhost.:8080", None, "127.0.0.1", False),
        ("127.0.0.1:8080", "http://evil.example", "127.0.0.1", False),  # a page elsewhere
        ("127.0.0.1:8080", "http://127.0.0.1:3000", "127.0.0.1", False),  # another page on this machine
        ("127.0.0.1:8080", "null", "127.0.0.1", False),
        ("", None, "127.0.0.1", False),
        (None, None, "127.0.0.1", False),
        ("[half:8080", None, "127.0.0.1", False),
        ("192.168.1.7:8080", "http://192.168.1.7:8080", "127.0.0.1", False),
        ("192.168.1.7:8080", "http://192.168.1.7:8080", "0.0.0.0", True),
        ("evil.example:8080", "http://evil.example:8080", "0.0.0.0", False),
        ("lab.example", "https://lab.example", "127.0.0.1", True),  # told to show(hosts=...)
    ],
)
def test_which_requests_are_answered(host, origin, served, allowed):
    assert (refusal(host, origin, served, ["lab.example"]) == "") is allowed


@pytest.fixture(scope="module")
def viewer():
    shown = wt.show(wt.mechanisms.double_pendulum(), port=8437)
    yield shown
    shown.stop()


def answer(viewer, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", viewer.server.get_port(), timeout=10)
    connection.putrequest("GET", "/", skip_host=True)
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    text = response.read().decode(errors="replace")
    connection.close()
    return response.status, text


def test_files_are_for_this_machine_only(viewer):
    assert answer(viewer, Host=f"127.0.0.1:{viewer.server.get_port()}")[0] == 200
    status, text = answer(viewer, Host="evil.example")
    assert status == 403
    assert "Host 'evil.example' is not where this page is served" in text


def first_line(viewer, request):
    """The first line that comes back to some bytes; nothing where the connection is closed."""
    with socket.create_connection(("127.0.0.1", viewer.server.get_port()), timeout=10) as connection:
        connection.sendall(request)
        return connection.recv(4096).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("head", "allowed"),
    [
        (["Host: 127.0.0.1:{port}"], True),
        (["host: localhost:{port}"], True),
        (["Host: evil.example"], False),
        ([], False),
        (["Host: 127.0.0.1:{port}", "Host: evil.example"], False),
        (["Host: 127.0.0.1:{port}", "Origin: http://evil.example"], False),
        (["Host: 127.0.0.1:{port}", "Origin: http://127.0.0.1:{port}", "Origin: http://evil.example"], False),
        (["Host: evil.example", "X-Forwarded-Host: 127.0.0.1:{port}"], False),
    ],
)
@pytest.mark.parametrize("socketed", [False, True])
def test_bytes_on_the_wire(viewer, head, allowed, socketed):
    lines = ["GET / HTTP/1.1", *[line.format(port=viewer.server.get_port()) for line in head]]
    if socketed:
        lines += ["Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
        lines += ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Protocol: viser-v{viser.__version__}"]
    answer = first_line(viewer, "\r\n".join([*lines, "", ""]).encode())
    assert answer in ((b"HTTP/1.1 200 OK", b"HTTP/1.1 101 Switching Protocols") if allowed else REFUSED)


REFUSED = (b"HTTP/1.1 403 Forbidden", b"HTTP/1.1 400 Bad Request", b"")


def test_the_scene_is_for_the_page_only(viewer):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    port = viewer.server.get_port()
    options = {"subprotocols": [f"viser-v{viser.__version__}"], "open_timeout": 10, "proxy": None}
    with connect(f"ws://127.0.0.1:{port}", origin=f"http://127.0.0.1:{port}", **options):
        pass
    with pytest.raises(InvalidStatus, match="403"):
        connect(f"ws://127.0.0.1:{port}", origin="http://evil.example", **options)


def test_other_servers_are_left_alone(viewer):
    from websockets.asyncio import server

    assert server.serve.__module__ == "websockets.asyncio.server"
