"""The demo and the test of docs/environments.md run unchanged, on an environment with the interface of Gymnasium."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from realtime_engine.client import RealtimeClient

from ..cli.support import ENVIRONMENT, TIMEOUT_S, Command

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"

# The part of gymnasium that the page uses; the package itself is not needed to test the page.
GYMNASIUM = """
import numpy as np


class Hill:
    metadata = {"render_fps": 30}

    def reset(self, *, seed=None):
        if seed is not None:
            self.random = np.random.default_rng(seed)
        self.position, self.steps = float(self.random.uniform(20, 40)), 0
        return np.array([self.position]), {}

    def step(self, action):
        assert action in (0, 1, 2), action
        self.position = float(np.clip(self.position + 2 * (action - 1), 0, 63))
        self.steps += 1
        return np.array([self.position]), -1.0, self.position >= 63, self.steps >= 200, {}

    def render(self):
        picture = np.zeros((48, 64, 3), np.uint8)
        picture[:, : int(self.position)] = 255
        picture[0, 0, 0] = self.position * 4
        return picture

    def close(self):
        pass


def make(name, render_mode):
    assert (name, render_mode) == ("MountainCar-v0", "rgb_array")
    return Hill()
"""


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    demo, _, test = blocks()
    (tmp_path / "gymnasium.py").write_text(GYMNASIUM)
    (tmp_path / "my_environment.py").write_text(demo)
    (tmp_path / "test_environment.py").write_text(test)
    return tmp_path


async def test_the_demo_is_served_until_its_episode_ends(folder: Path) -> None:
    (command,) = re.findall(r"^    realtime-engine (serve .*)$", PAGE.read_text(), re.MULTILINE)
    with Command(*command.split(), "--port", "0", cwd=folder) as running:
        async with RealtimeClient.connect(running.url(), context={"seed": 7}, transport="mjpeg") as client:
            first = light((await client.next_frame(TIMEOUT_S)).pixels)
            client.press("ArrowRight")
            await asyncio.wait_for(reached(client, 60), TIMEOUT_S)
            assert first < 45
            await client.reset({"seed": 7})
            client.release("ArrowRight")
            client.press("ArrowLeft")
            await asyncio.wait_for(reached(client, 10), TIMEOUT_S)
        assert running.interrupt() == 0


async def reached(client: RealtimeClient, column: int) -> None:
    """Wait for a frame whose light ends within three columns."""
    async for frame in client.frames():
        if abs(light(frame.pixels) - column) <= 3:
            return
    raise AssertionError("the client was closed")


def light(pixels) -> int:
    return int((pixels[24, :, 1] > 128).sum())


def test_the_suite_runs_as_shown(folder: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "test_environment.py"]
    ended = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert ended.returncode == 0, ended.stdout
    assert "1 passed" in ended.stdout


def test_an_episode_without_end_continues_after_a_reset(folder: Path) -> None:
    """The second block replaces the end of a rollout."""
    demo, block, _ = blocks()
    endless = demo.replace("        picture =", f"{block}        picture =").replace(
        ", last=terminated or truncated", ""
    )
    assert endless.count("self.env.reset(") == demo.count("self.env.reset(") + 1
    script = (
        "from my_environment import demo\n"
        "from realtime_engine import SessionInit\n"
        "engine = demo.build(None)\n"
        "engine.attach(SessionInit('a'))\n"
        "results = [engine.step({'a': {'action': 2}})[0] for _ in range(100)]\n"
        "assert not any(result.last for result in results)\n"
        "print(min(int((result.output[0, 24, :, 1] > 128).sum()) for result in results[50:]))\n"
    )
    (folder / "my_environment.py").write_text(endless)
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert ended.returncode == 0, ended.stderr
    assert 20 <= int(ended.stdout) <= 45
