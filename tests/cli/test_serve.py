"""``serve`` as a process: it comes up, says where, and ends when it is told to."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from realtime_engine.client import RealtimeClient, UnreachableError

from .support import TIMEOUT_S, Command

SLOW = """
import threading

from realtime_engine.infra.controls import Controls
from realtime_engine.infra.demo import Demo

def build(options):
    print("building", flush=True)
    threading.Event().wait()

demo = Demo("slow", "Slow", build, Controls(), lambda window: {})
"""
STUBBORN = SLOW.replace(
    "    threading.Event().wait()",
    """\
    threading.Thread(target=threading.Event().wait, daemon=False).start()
    print("a thread that never ends", flush=True)
    raise SystemExit""",
)


def test_it_prints_where_the_page_is_and_ends_with_an_interrupt() -> None:
    with Command("serve", "maze", "--port", "0", "--frames-per-chunk", "4") as running:
        assert running.get("healthz") == {"status": "ok"}
        assert running.get("api/demo")["manifest"]["frames_per_chunk"] == 4
        assert running.interrupt() == 0
        assert "The Maze" in running.output and "Traceback" not in running.output


def test_it_ends_cleanly_with_sigterm() -> None:
    with Command("serve", "maze", "--port", "0") as running:
        running.url()
        running.signal(signal.SIGTERM)
        assert running.wait() == 0


def test_the_token_is_part_of_the_address() -> None:
    with Command("serve", "maze", "--port", "0", REALTIME_ENGINE_TOKEN="correct horse") as running:
        running.wait_for_output(r"http://127\.0\.0\.1:\d+/\?token=correct%20horse")


def test_the_token_can_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("correct horse\n")
    environment = {"REALTIME_ENGINE_TOKEN_FILE": str(tmp_path / "token")}
    with Command("serve", "maze", "--port", "0", **environment) as running:
        running.wait_for_output(r"http://127\.0\.0\.1:\d+/\?token=correct%20horse")


async def test_an_interrupt_ends_it_while_somebody_watches() -> None:
    with Command("serve", "maze", "--port", "0") as running:
        running.get("healthz")
        async with RealtimeClient.connect(running.url(), transport="mjpeg") as client:
            await client.next_frame(TIMEOUT_S)
            assert await asyncio.to_thread(running.interrupt) == 0
        assert "Traceback" not in running.output


async def test_a_server_that_is_killed_cannot_be_reached() -> None:
    with Command("serve", "maze", "--port", "0") as running:
        running.get("healthz")
        async with RealtimeClient.connect(running.url(), transport="mjpeg") as client:
            await client.next_frame(TIMEOUT_S)
            running.signal(signal.SIGKILL)
            with pytest.raises(UnreachableError):
                while True:
                    await client.next_frame(TIMEOUT_S)


def test_an_interrupt_ends_it_while_the_model_loads(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with Command("serve", "slow.py:demo", "--port", "0", cwd=tmp_path) as running:
        running.url()
        running.wait_for_output("building")
        assert running.interrupt() == 0


def test_what_never_ends_by_itself_is_ended_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    with Command("serve", "stubborn.py:demo", "--port", "0", "--shutdown-timeout", "0.1", cwd=tmp_path) as running:
        running.url()
        running.wait_for_output("never ends")
        assert running.interrupt() == 130


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    with Command("serve", "stubborn.py:demo", "--port", "0", "--shutdown-timeout", "1000", cwd=tmp_path) as running:
        running.url()
        running.wait_for_output("never ends")
        running.signal(signal.SIGINT)
        running.wait_for_output("press Ctrl-C again to exit immediately")
        assert running.interrupt() == 130


FAILING = """
from realtime_engine.infra.controls import Controls
from realtime_engine.infra.demo import Demo

def build(options):
    raise OSError("no weights at all")

demo = Demo("failing", "Failing", build, Controls(), lambda window: {})
"""


def test_several_demos_are_served_with_a_gallery(tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    arguments = ("serve", "maze", "--port", "0", "mirror", "failing.py:demo", "--unload-after", "60")
    with Command(*arguments, cwd=tmp_path) as running:
        assert [demo["name"] for demo in running.get("api/demos")["demos"]] == ["maze", "mirror", "failing"]
        assert all(f"/demos/{name}/" in running.output for name in ("maze", "mirror", "failing"))
        assert running.get("demos/failing/api/demo")["title"] == "Failing"
        running.wait_for_output("no weights at all")
        assert running.get("demos/maze/api/demo")["gallery"] == "../../"
        assert {demo["name"]: demo["state"] for demo in running.get("api/demos")["demos"]}["failing"] == "failed"
        assert running.interrupt() == 0


async def test_an_interrupt_ends_several_demos_while_somebody_watches() -> None:
    with Command("serve", "maze", "mirror", "--port", "0") as running:
        running.get("demos/maze/api/demo")
        running.wait_for_output("'maze' is ready")
        async with RealtimeClient.connect(f"{running.url()}/demos/maze/", transport="mjpeg") as client:
            await client.next_frame(TIMEOUT_S)
            assert await asyncio.to_thread(running.interrupt) == 0
        assert "Traceback" not in running.output


def test_an_interrupt_ends_it_while_one_of_several_loads(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with Command("serve", "maze", "slow.py:demo", "--port", "0", cwd=tmp_path) as running:
        running.get("demos/slow/api/demo")
        running.wait_for_output("building")
        assert running.interrupt() == 0
