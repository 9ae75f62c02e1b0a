from __future__ import annotations

import logging
import resource
import signal
import socket
import subprocess
import sys

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from realtime_engine.server import DemoServer, ServerConfig, create_app
from realtime_engine.server.uvicorn_server import hide_tokens

from .support import over_http, paint_demo


async def test_send_buffers_are_small_so_that_slow_viewers_get_recent_frames() -> None:
    async with over_http() as served:
        assert served.server is not None
        listener = served.server.listener
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) <= 128 * 1024
        assert served.server.url.startswith("http://127.0.0.1:")
        assert "server" not in (await served.client.get("/healthz")).headers


def test_an_address_in_use_is_reported() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = ServerConfig(port=taken.getsockname()[1])
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{config.port}.*choose another port"):
            DemoServer(create_app(paint_demo(), config), config)


def test_the_limit_of_open_files_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda *given: asked.append(given))
    config = ServerConfig(port=0)
    DemoServer(create_app(paint_demo(), config), config).listener.close()
    assert asked == [(resource.RLIMIT_NOFILE, (4096, 4096))]


def test_tokens_are_masked_in_the_log() -> None:
    record = logging.LogRecord(
        "uvicorn.access", logging.INFO, "", 0, '%s "%s" %d', ("here", "/s.mjpeg?a=1&token=abc_-9&b=2", 200), None
    )
    assert hide_tokens(record)
    assert record.getMessage() == 'here "/s.mjpeg?a=1&token=...&b=2" 200'


@pytest.mark.parametrize(
    ("path", "masked"),
    [
        ("/?watch=s1.abc_-9", "/?watch=..."),
        ("/api/tickets/abc_-9", "/api/tickets/..."),
        ("/api/tickets/abc_-9/events", "/api/tickets/.../events"),
        ("/api/sessions/abc", "/api/sessions/abc"),
    ],
)
def test_invitations_and_tickets_are_masked_in_the_log(path: str, masked: str) -> None:
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 0, '"%s" %d', (path, 200), None)
    assert hide_tokens(record) and record.getMessage() == f'"{masked}" 200'


async def test_several_servers_in_one_process_install_one_filter() -> None:
    async with over_http(), over_http():
        assert logging.getLogger("uvicorn.access").filters.count(hide_tokens) == 1


async def test_the_shutdown_waits_for_no_timeout() -> None:
    async with over_http(shutdown_timeout_s=1000) as served:  # far above the timeout of the test
        await served.create()
        await served.create()


def test_sigint_ends_it_cleanly() -> None:
    code = (
        "from realtime_engine.server import DemoServer, ServerConfig, create_app\n"
        "from tests.server.support import paint_demo\n"
        "config = ServerConfig(port=0)\n"
        "server = DemoServer(create_app(paint_demo(), config), config)\n"
        "server.run()\n"
        "print('bye')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "startup complete" in line:
            break
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 0 and out == "bye\n"


async def test_a_refused_handshake_is_not_logged_as_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async with over_http() as served:
        assert served.server is not None
        address = f"{served.server.url.replace('http', 'ws')}api/sessions/unknown/controls?token=x"
        with pytest.raises(InvalidStatus) as refused:
            await connect(address)
        assert refused.value.response.status_code == 404
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
