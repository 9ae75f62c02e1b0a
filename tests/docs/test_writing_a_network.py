"""The network in docs/writing-a-demo.md is served and keeps the contract, and the suite finds each mistake shown."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from realtime_engine.client import RealtimeClient
from realtime_engine.testing import ConformanceError

from ..cli.support import TIMEOUT_S, Command

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-demo.md").read_text()
CHAPTER = PAGE.partition("## From an nn.Module to a batched demo\n")[2].partition("\n## ")[0]
NETWORK, TEST = re.findall(r"^```python\n(.*?)^```$", CHAPTER, re.DOTALL | re.MULTILINE)
MISTAKES = re.findall(r"^\*\*(.*?)\.\*\*(.*?)\n    AssertionError: (.*?)\n", CHAPTER, re.DOTALL | re.MULTILINE)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def changed(listing: str, diffs: str) -> str:
    """The listing after every ``diff`` block in ``diffs``."""
    for diff in re.findall(r"^```diff\n(.*?)^```$", diffs, re.DOTALL | re.MULTILINE):
        old, new = ("".join(re.findall(rf"^[{sign}](.*\n)", diff, re.MULTILINE)) for sign in "-+")
        assert listing.count(old) == 1, f"the listing has {listing.count(old)} times\n{old}"
        listing = listing.replace(old, new)
    return listing


def the_test(monkeypatch: pytest.MonkeyPatch, listing: str, test: str = TEST) -> Callable[[], None]:
    """The test on the page, applied to this listing."""
    module = ModuleType("my_network")
    monkeypatch.setitem(sys.modules, "my_network", module)
    exec(compile(listing, "my_network.py", "exec"), module.__dict__)
    scope: dict[str, Any] = {}
    exec(compile(test, "test_medium.py", "exec"), scope)
    (function,) = (value for name, value in scope.items() if name.startswith("test_"))
    return function  # type: ignore[no-any-return]


def test_the_network_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    the_test(monkeypatch, NETWORK)()


def test_a_varying_batch_size_stays_within_the_tolerance_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    (tolerance,) = re.findall(r"`(same=lambda .*?)`", CHAPTER, re.DOTALL)
    every_row = "self.forward(self.before, *tensors)"
    assert (
        NETWORK.count(every_row) == 1
        and "for row in rows:\n            self.place(row, batch.ages[row] + 1)" in NETWORK
    )
    taken = NETWORK.replace(every_row, "self.forward(self.before[rows], *(values[rows] for values in tensors))")
    taken = taken.replace("copy_(after[row])", "copy_(after[rows.index(row)])")
    test = TEST.replace("same=torch.equal", tolerance).replace('skip=frozenset({"replica_parity"}),', "")
    assert tolerance in test and "skip" not in test
    the_test(monkeypatch, taken, test)()


def test_there_are_four_mistakes_and_each_changes_the_listing() -> None:
    assert len(MISTAKES) == 4 and CHAPTER.count("AssertionError: ") == 4
    assert all(changed(NETWORK, diffs) != NETWORK for _, diffs, _ in MISTAKES)


@pytest.mark.parametrize(("diffs", "message"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES])
def test_the_suite_finds_a_mistake_with_the_message_shown(
    monkeypatch: pytest.MonkeyPatch, diffs: str, message: str
) -> None:
    test = the_test(monkeypatch, changed(NETWORK, diffs))
    with pytest.raises(ConformanceError) as raised:
        test()
    assert message in map(str, raised.value.failures.values())


async def test_the_network_is_served_and_reacts_to_a_key(tmp_path: Path) -> None:
    (tmp_path / "my_network.py").write_text(NETWORK)
    (command,) = re.findall(r"^    realtime-engine (.*)$", CHAPTER, re.MULTILINE)
    with Command(*command.split(), "--port", "0", cwd=tmp_path) as running:
        running.get("api/demo")  # is ready
        async with RealtimeClient.connect(running.url(), context={"seed": 7}, transport="mjpeg") as client:
            for _ in range(30):
                calm = await client.next_frame(TIMEOUT_S)
            assert calm.pixels.shape == (216, 384, 3)
            client.press("Space")
            await asyncio.wait_for(rough_frame(client, 1.5 * roughness(calm.pixels)), TIMEOUT_S)
        assert running.interrupt() == 0


async def rough_frame(client: RealtimeClient, least: float) -> None:
    async for frame in client.frames():
        if roughness(frame.pixels) > least:
            return
    raise AssertionError("the client was closed")


def roughness(pixels: np.ndarray[Any, Any]) -> float:
    """Mean step from a grid cell to the one on its right."""
    return float(np.abs(np.diff(pixels[4::8, 4::8].astype(np.float64), axis=1)).mean())
