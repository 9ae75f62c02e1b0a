"""The listings and commands of docs/writing-a-demo.md run unchanged, and its tables are complete."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

from realtime_engine import SessionInit
from realtime_engine.client import ClientFrame, RealtimeClient
from realtime_engine.infra.controls import ControlWindow
from realtime_engine.infra.controls.camera import CameraSettings
from realtime_engine.infra.controls.schema import Edge
from realtime_engine.infra.video_input import InputFrame, VideoInput, VideoWindow

from ..cli.support import ENVIRONMENT, TIMEOUT_S, Command
from ..publisher import Publisher
from ..server.support import over_http

PAGE = Path(__file__).parents[2] / "docs" / "writing-a-demo.md"
MAX_LINES = 60
BROWN = np.full((180, 320, 3), (160, 100, 60), np.uint8)


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


def block_with(text: str) -> str:
    """The first block that contains a text."""
    return next(block for block in blocks() if text in block)


def commands() -> list[list[str]]:
    return [line.split()[1:] for line in re.findall(r"^    (realtime-engine .*)$", PAGE.read_text(), re.MULTILINE)]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my_demo.py").write_text(blocks()[0])
    return tmp_path


@pytest.fixture
def url(folder: Path) -> Iterator[str]:
    arguments = commands()[0]
    assert arguments == ["serve", "my_demo.py:demo"]
    with Command(*arguments, "--port", "0", cwd=folder) as running:
        yield running.url()
        assert running.interrupt() == 0


def test_the_demo_is_short() -> None:
    assert len(blocks()[0].splitlines()) <= MAX_LINES


async def test_the_demo_is_served_and_reacts_to_a_key(url: str) -> None:
    async with RealtimeClient.connect(url, context={"seed": 7}) as client:
        start = lantern((await client.next_frame(TIMEOUT_S)).pixels)
        seq = client.press("KeyD")
        moved = await asyncio.wait_for(frame_to_the_right(client, start + 40), TIMEOUT_S)
        assert moved.action_seq is not None and moved.action_seq >= seq
        client.release("KeyD")
        client.press("KeyA")
        await asyncio.wait_for(frame_to_the_left(client, start), TIMEOUT_S)


async def test_the_pipeline_is_served_and_reacts_to_a_key(tmp_path: Path) -> None:
    (tmp_path / "my_pipeline.py").write_text(next(block for block in blocks() if "StreamingEngine" in block))
    with Command("serve", "my_pipeline.py:demo", "--port", "0", cwd=tmp_path) as running:
        async with RealtimeClient.connect(running.url()) as client:
            start = lantern((await client.next_frame(TIMEOUT_S)).pixels)
            seq = client.press("KeyD")
            moved = await asyncio.wait_for(frame_to_the_right(client, start + 40), TIMEOUT_S)
            assert moved.action_seq is not None and moved.action_seq >= seq
        assert running.interrupt() == 0


async def frame_to_the_right(client: RealtimeClient, x: float) -> ClientFrame:
    async for frame in client.frames():
        if lantern(frame.pixels) > x:
            return frame
    raise AssertionError("the client was closed")


async def frame_to_the_left(client: RealtimeClient, x: float) -> ClientFrame:
    async for frame in client.frames():
        if lantern(frame.pixels) < x:
            return frame
    raise AssertionError("the client was closed")


def lantern(pixels: NDArray[np.uint8]) -> float:
    """Column of the brightest spot."""
    brightness = pixels.astype(np.float64).sum(2)
    columns = np.arange(brightness.shape[1])
    weights = np.clip(brightness - 0.8 * brightness.max(), 0, None).sum(0)
    return float((weights * columns).sum() / weights.sum())


def test_every_attribute_of_a_window_is_listed() -> None:
    listed = re.findall(r"^\| `window\.(\w+)", PAGE.read_text(), re.MULTILINE)
    offered = {name for name in {*dir(ControlWindow), *ControlWindow.__dataclass_fields__} if not name.startswith("_")}
    assert set(listed) == offered


def test_every_kind_of_edge_is_listed_with_its_members() -> None:
    table = PAGE.read_text().partition('| `event["kind"]`')[2].partition("\n\n")[0]
    rows = [re.findall(r"`(\w+)`", cell) for row in table.splitlines()[2:] for cell in row.split("|")[1:3]]
    listed = {kind: set(members) for kinds, members in zip(rows[::2], rows[1::2], strict=True) for kind in kinds}
    edges = get_args(get_args(Edge)[0])
    expected = {get_args(edge.model_fields["kind"].annotation)[0]: {*edge.model_fields} for edge in edges}
    assert listed == {kind: members - {"kind", "seq", "t"} for kind, members in expected.items()}


def test_the_suite_accepts_the_inputs_shown(folder: Path) -> None:
    more = re.findall(r"`EngineCase\(\.\.\., (context=.*?)\)`", PAGE.read_text(), re.DOTALL)
    test = block_with("from my_demo import Pond").replace(
        "EngineCase(\n", f"EngineCase(\n            {' '.join(more[0].split())},\n"
    )
    (folder / "test_pond.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "test_pond.py"]
    assert "1 passed" in run(command, folder).stdout


def test_the_suite_runs_as_shown(folder: Path) -> None:
    (folder / "test_pond.py").write_text(block_with("from my_demo import Pond"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "test_pond.py"]
    ended = run(command, folder)
    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout


def test_the_client_runs_as_shown(folder: Path, url: str) -> None:
    script = block_with("RealtimeClient.connect(")
    assert "http://127.0.0.1:8000" in script
    (folder / "bot.py").write_text(script.replace("http://127.0.0.1:8000", url))
    ended = run([sys.executable, "bot.py"], folder)
    assert ended.stdout == "first frame that reflects the key: (216, 384, 3)\n", ended.stderr


def test_the_options_become_flags(folder: Path) -> None:
    """The block on options replaces the last line of the demo."""
    first = blocks()[0]
    (folder / "my_demo.py").write_text(first[: first.index("demo = Demo(")] + block_with("class Options"))
    arguments = commands()[1]
    assert arguments[-2:] == ["--max-sessions", "8"]
    with Command(*arguments, "--port", "0", cwd=folder) as running:
        assert running.get("api/demo")["manifest"]["max_sessions"] == 8
        assert running.interrupt() == 0


def test_the_pipeline_runs_offline_as_shown(tmp_path: Path) -> None:
    (tmp_path / "my_pipeline.py").write_text(next(block for block in blocks() if "StreamingEngine" in block))
    (tmp_path / "offline.py").write_text(next(block for block in blocks() if "run_offline(" in block))
    ended = run([sys.executable, "-W", "error", "offline.py"], tmp_path)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert (len(lines), lines[-1]) == (100, "99 frames (1, 216, 384, 3)")


async def test_the_video_demo_shows_the_negative() -> None:
    (block,) = [block for block in blocks() if "class Negative" in block]
    scope: dict[str, Any] = {}
    exec(block, scope)
    async with over_http(scope["demo"]) as served, Publisher(lambda number: BROWN) as publisher:
        owned = await served.create()
        answer = await owned.request(
            "POST", "whip", content=await publisher.offer(), headers={"Content-Type": "application/sdp"}
        )
        await publisher.set_answer(answer.text)
        with served.session(owned).media.frames.subscribe() as viewer:
            while np.abs((await viewer.next()).pixels[90, 160].astype(int) - (255 - BROWN[90, 160])).max() > 8:
                pass


def test_every_attribute_of_video_is_listed() -> None:
    table = PAGE.read_text().partition("## Video input")[2].partition("\n## ")[0]
    for prefix, kind in (("video", VideoWindow), ("frame", InputFrame)):
        listed = set(re.findall(rf"`{prefix}\.(\w+)", table))
        assert listed == {name for name in dir(kind) if not name.startswith("_")}
    assert all(name in table for name in VideoInput.__dataclass_fields__)


def test_the_floor_moves_from_the_press_of_a_key() -> None:
    (block,) = [block for block in blocks() if "class Floor" in block]
    scope: dict[str, Any] = {}
    exec(block, scope)
    engine = scope["demo"].build(None)
    for session in ("moving", "still"):
        engine.attach(SessionInit(session))
    press = {"kind": "key_down", "code": "KeyW", "seq": 1, "t": 5000.0}
    made = [
        {result.session_id: result.output for result in engine.step({"moving": given, "still": {}})}
        for given in ({"events": (press,)}, {}, {})
    ]
    assert made[0]["moving"].shape == (4, 180, 320, 3)
    np.testing.assert_array_equal(made[0]["moving"], made[0]["still"])  # a key pressed now moves the next chunk
    assert len({frame.tobytes() for frame in made[2]["moving"]}) == 4
    np.testing.assert_array_equal(made[2]["still"], made[0]["still"])


def test_every_camera_setting_is_listed() -> None:
    table = PAGE.read_text().partition("## Camera control")[2].partition("\n## ")[0]
    assert all(name in table for name in CameraSettings.__dataclass_fields__ if name not in ("fps", "keys"))
