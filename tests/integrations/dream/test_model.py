from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import pytest
import torch

from realtime_engine import ComposedEngine, SessionInit
from realtime_engine.core.errors import StepFailure
from realtime_engine.core.stages import StageBatch
from realtime_engine.integrations.dream import model as dream_model
from realtime_engine.integrations.dream.inference import PictureEncoding, dream_noise
from realtime_engine.integrations.dream.level import HEIGHT, THEMES, WIDTH
from realtime_engine.integrations.dream.model import DreamModel
from realtime_engine.integrations.dream.weights import Weights
from realtime_engine.testing import EngineCase, FaultyModel, check_engine
from realtime_engine.testing.conformance import CHECKS

from .tiny import tiny_weights

SIZE = {"height": HEIGHT, "width": WIDTH}
STATE = ("_places", "_hidden", "_codes")
LANES: tuple[dict[str, Any], ...] = ({"pipeline": False}, {"pipeline": True}, {"pipeline": True, "lanes": "thread"})
Rows = Literal["all", "occupied"]
Make = Callable[..., DreamModel]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return tiny_weights(tmp_path_factory.mktemp("dream"))


@pytest.fixture
def make(weights: Weights) -> Make:
    return partial(DreamModel, weights, **SIZE)


def context(index: int) -> dict[str, Any]:
    return {"seed": index + 1, "theme": THEMES[0]}


def conditioning(index: int, step: int) -> dict[str, Any]:
    events = [{"kind": "pointer_move", "dx": 40 * index - 15, "dy": step}]
    return {
        "forward": 1.0,
        "strafe": 0.5 * (index - 1),
        "turn": (step % 3) - 1.0,
        "run": step > 1,
        "astray": 0.3 * (index % 3),
        "theme": THEMES[0],
        "events": events,
    }


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def nearly(left: np.ndarray, right: np.ndarray) -> bool:
    """Of numbers that agree within 1e-5 before they are rounded, a few fall on the other side of a half."""
    return int(np.abs(left.astype(np.int16) - right).max()) <= 1


def case(make: Make, rows: Rows, lanes: Mapping[str, Any], **more: Any) -> EngineCase:
    return EngineCase(
        make_engine=lambda sessions: ComposedEngine(make(sessions, rows=rows), **lanes),
        make_faulty=lambda sessions, plan: ComposedEngine(FaultyModel(make(sessions, rows=rows), plan), **lanes),
        context=context,
        conditioning=conditioning,
        heavy=("theme", THEMES[0], THEMES[1]),
        **more,
    )


@pytest.mark.parametrize("lanes", LANES)
def test_with_all_rows_the_contract_holds_bit_for_bit(make: Make, lanes: Mapping[str, Any]) -> None:
    check_engine(case(make, "all", lanes, skip=frozenset({"replica_parity"})))  # a batch of another size: see below


def test_with_the_occupied_rows_only_the_contract_holds_within_a_level(make: Make) -> None:
    check_engine(case(make, "occupied", {"pipeline": True}, same=nearly))


def test_batches_of_other_sizes_agree_within_a_level(make: Make) -> None:
    others = frozenset(CHECKS) - {"replica_parity"}
    check_engine(case(make, "all", {"pipeline": False}, same=nearly, skip=others))


class Walk:
    """An engine around a model, whose sessions are named by a number that says how they walk."""

    def __init__(self, model: DreamModel, **lanes: Any) -> None:
        self.model = model
        self.engine = ComposedEngine(model, **{"pipeline": False, **lanes})
        self.steps: dict[int, int] = {}
        self.chunks: dict[int, list[np.ndarray]] = {}

    def attach(self, *indices: int, **more: Any) -> None:
        for index in indices:
            self.engine.attach(SessionInit(str(index), {**context(index), **more}))
            self.steps[index], self.chunks[index] = 0, []

    def step(self, *indices: int, **more: Any) -> None:
        due = {str(index): {**conditioning(index, self.steps[index]), **more} for index in indices}
        for index in indices:
            self.steps[index] += 1
        for result in self.engine.step(due):
            self.chunks[int(result.session_id)].append(result.output)

    def row(self, index: int) -> int:
        row = self.engine.slot_of(str(index))
        assert row is not None
        return row

    def state(self, index: int) -> dict[str, np.ndarray]:
        """Both halves of a row, and its code."""
        size, row = self.model.manifest().max_sessions, self.row(index)
        tensors = {name: getattr(self.model, name) for name in STATE}
        return {name: tensor[row::size].cpu().numpy().copy() for name, tensor in tensors.items()}

    def place(self, index: int) -> np.ndarray:
        """Where the row is after its last chunk."""
        return self.state(index)["_places"][self.steps[index] % 2]


def assert_same_bits(got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    for name, value in wanted.items():
        assert got[name].tobytes() == value.tobytes(), name


def test_a_session_has_the_same_bits_alone_and_in_a_full_batch_in_any_row(make: Make) -> None:
    alone = Walk(make(4))
    alone.attach(2)
    for _ in range(6):
        alone.step(2)
    for row in range(4):
        walk = Walk(make(4))
        others = [10 + number for number in range(4)]
        walk.attach(*others[:row], 2, *others[row:3])
        assert walk.row(2) == row
        for _ in range(6):
            walk.step(2, *others[:3])
        assert np.array_equal(walk.chunks[2], alone.chunks[2])
        assert_same_bits(walk.state(2), alone.state(2))


def test_what_becomes_of_one_row_leaves_the_bits_of_the_others(make: Make) -> None:
    walk, quiet = Walk(make(3)), Walk(make(3))
    for each in (walk, quiet):
        each.attach(0, 1)
        each.step(0, 1)
    walk.attach(2)
    before = walk.state(0)
    walk.engine.step({})  # seeds the newcomer
    assert_same_bits(walk.state(0), before)
    walk.step(0, 1, 2)
    walk.engine.reset(SessionInit("2", {"seed": 77, "theme": "frost"}))
    walk.step(0, 1, 2)
    with pytest.raises(StepFailure, match="seed must be an integer"):
        walk.engine.reset(SessionInit("2", {"seed": "x"}))
        walk.step(0, 1)
    walk.steps[0] -= 1  # made, and inside of the error
    walk.engine.detach("2")
    walk.steps[0] += 1
    walk.step(0, 1)
    for _ in range(4):
        quiet.step(0, 1)
    for index in (0, 1):
        assert_same_bits(walk.state(index), quiet.state(index))
        assert np.array_equal(walk.chunks[index][-1], quiet.chunks[index][-1])


def noting(kept: list[torch.Tensor], decode: Callable[[torch.Tensor], np.ndarray]) -> Callable[..., np.ndarray]:
    def noted(latents: torch.Tensor) -> np.ndarray:
        kept.append(latents)
        return decode(latents)

    return noted


def test_with_the_occupied_rows_places_and_latents_agree_closely(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    latents: dict[str, list[torch.Tensor]] = {"all": [], "occupied": []}
    walks = {rows: Walk(make(4, rows=rows)) for rows in ("all", "occupied")}
    for rows, walk in walks.items():
        monkeypatch.setattr(walk.model._dreamer, "decode", noting(latents[rows], walk.model._dreamer.decode))
        walk.attach(0, 1, 2)
        walk.engine.step({})
        walk.engine.detach("0")
        for _ in range(40):
            walk.step(1, 2)
    for index in (1, 2):
        assert np.abs(walks["all"].place(index) - walks["occupied"].place(index)).max() < 1e-5
    assert len(latents["occupied"][-1]) == 2
    assert float((latents["all"][-1][1:3] - latents["occupied"][-1]).abs().max()) < 1e-5


def test_noise_follows_from_seed_and_step_alone(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[int, int]] = []

    def note(seed: int, step: int, shape: tuple[int, ...]) -> np.ndarray:
        drawn.append((seed, step))
        return dream_noise(seed, step, shape)

    monkeypatch.setattr("realtime_engine.integrations.dream.inference.dream_noise", note)
    walk = Walk(make(3, frames_per_chunk=2))
    walk.attach(5)
    walk.step(5, astray=0.0)
    walk.attach(8)
    walk.step(5, 8, astray=1.0)
    assert sorted(drawn) == [(6, 2), (6, 3), (9, 0), (9, 1)]
    assert np.array_equal(dream_noise(6, 23, (4, 48)), dream_noise(6, 23, (4, 48)))


def test_a_step_that_fails_after_its_work_is_made_again_from_the_same_state(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, clean = Walk(make(2)), Walk(make(2))
    for each in (walk, clean):
        each.attach(0, 1)
        each.step(0)  # the rows are of different ages from here on
        each.step(0, 1)
    with monkeypatch.context() as broken:
        broken.setattr(dream_model, "_Latents", lambda rows, frames: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            walk.step(0, 1)
    for index in (0, 1):
        walk.steps[index] -= 1
    for each in (walk, clean):
        each.step(0, 1)
        each.step(1)
    for index in (0, 1):
        assert np.array_equal(walk.chunks[index], clean.chunks[index])
        assert_same_bits(walk.state(index), clean.state(index))


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({"seed": -1}, "seed must be an integer from 0 to 2**63 - 1, got -1"),
        ({"seed": 2**63}, "seed must be an integer from 0 to 2**63 - 1, got 9223372036854775808"),
        ({"seed": True}, "seed must be an integer from 0 to 2**63 - 1, got True"),
        ({"theme": "lava"}, "theme must be one of day, ember, frost, got 'lava'"),
        ({"theme": ["day"]}, "theme must be one of day, ember, frost, got ['day']"),
        ({"theme": "lava", "picture": np.zeros((64, 96, 3), np.uint8)}, "theme must be one of"),
        ({"picture": np.zeros((96, 64, 3), np.uint8)}, "picture must be a uint8 array of shape (64, 96, 3), got uint8"),
        ({"picture": np.zeros((64, 96, 3), np.float32)}, "picture must be a uint8 array of shape (64, 96, 3), got flo"),
        ({"seed": 10**5000}, "seed must be an integer from 0 to 2**63 - 1, got "),
        ({"theme": "lava" * 10**6}, "theme must be one of day, ember, frost, got 'lava"),
        ({"picture": nested(100_000)}, "picture must be a uint8 array of shape (64, 96, 3), got [[[[[["),
        ({"picture": "sunset.png"}, "picture must be a uint8 array of shape (64, 96, 3), got 'sunset.png'"),
    ],
)
def test_a_bad_context_is_refused_before_any_row_changes(make: Make, context: dict[str, Any], text: str) -> None:
    model = make(2)
    before = {name: getattr(model, name).clone() for name in STATE}
    with pytest.raises(ValueError) as caught:
        model.seed({0: {"seed": 3}, 1: context})
    assert text in str(caught.value) and len(str(caught.value)) < 200
    assert all(torch.equal(getattr(model, name), before[name]) for name in STATE)
    assert not model._seeds.any()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"forward": 10**400}, "forward must be a number, got 1000"),
        ({"forward": "fast"}, "forward must be a number, got 'fast'"),
        ({"astray": 2}, "astray must be a number from 0 to 1, got 2"),
        ({"astray": float("nan")}, "astray must be a number from 0 to 1, got nan"),
        ({"theme": "lava"}, "theme must be one of day, ember, frost, got 'lava'"),
    ],
)
def test_a_bad_conditioning_is_refused_by_name(make: Make, given: dict[str, Any], text: str) -> None:
    engine = ComposedEngine(make(1))
    engine.attach(SessionInit("a", {}))
    with pytest.raises((ValueError, StepFailure)) as caught:
        engine.step({"a": given})
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"max_sessions": 0}, "max_sessions must be an integer of 1 or more, got 0"),
        ({"frames_per_chunk": 0}, "frames_per_chunk must be an integer of 1 or more, got 0"),
        ({"width": -4}, "width must be an integer of 1 or more, got -4"),
        ({"height": 1.5}, "height must be an integer of 1 or more, got 1.5"),
        ({"fps": 20}, "fps must divide 30, got 20"),
        ({"fps": 0}, "fps must divide 30, got 0"),
        ({"fps": 60}, "fps must divide 30, got 60"),
        ({"rows": "some"}, "rows must be 'all' or 'occupied', got 'some'"),
        ({"device": "gpu"}, "device must be a torch device such as 'cpu' or 'cuda', got 'gpu'"),
        ({"device": ""}, "device must be a torch device"),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_name(weights: Weights, option: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        DreamModel(weights, **option)
    assert text in str(caught.value)


@pytest.mark.parametrize("fps", [10, 15, 30])
def test_a_walk_has_the_same_length_at_every_rate(make: Make, fps: int) -> None:
    frames = {10: 1, 15: 3, 30: 3}[fps]
    walk, steady = Walk(make(1, fps=fps, frames_per_chunk=frames)), Walk(make(1, fps=30))
    for each, chunks in ((walk, 4), (steady, 4 * frames * 30 // fps)):
        each.attach(0)
        for _ in range(chunks):
            each.step(0, turn=0.5, run=False, events=())
    assert walk.model.manifest().rate_hz == fps / frames
    assert walk.chunks[0][0].shape == (frames, HEIGHT, WIDTH, 3)
    assert np.array_equal(walk.chunks[0][-1][-1], steady.chunks[0][-1][-1])


def test_pointer_travel_counts_once_in_a_chunk(make: Make) -> None:
    turned = []
    for frames in (1, 4):
        walk = Walk(make(1, fps=30, frames_per_chunk=frames))
        walk.attach(0)
        events = [{"kind": "pointer_move", "dx": 200, "dy": 0}]
        for step in range(4 // frames):
            still = {"forward": 0.0, "strafe": 0.0, "turn": 0.0, "events": () if step else events}
            walk.step(0, **still)
        turned.append(walk.place(0))
    assert np.array_equal(*turned)


def test_frames_may_be_larger_than_dreamt_pictures(weights: Weights) -> None:
    small, large = (Walk(DreamModel(weights, 1, height, width)) for height, width in ((64, 96), (128, 192)))
    for walk in (small, large):
        walk.attach(1)
        walk.step(1, astray=0)
    frame = large.chunks[1][0]
    assert frame.shape == (1, 128, 192, 3)
    coarse = frame[0].reshape(64, 2, 96, 2, 3).mean((1, 3))
    assert np.corrcoef(coarse.ravel(), small.chunks[1][0].ravel())[0, 1] > 0.95


def test_a_session_may_begin_with_a_picture(make: Make) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    upside_down = picture[::-1]  # memory out of order, and not to be written to
    upside_down.flags.writeable = False
    one, other = Walk(make(1)), Walk(make(1))
    one.attach(0, picture=upside_down)
    other.attach(0, picture=upside_down.copy())
    for walk in (one, other):
        walk.step(0)
    assert np.array_equal(one.chunks[0], other.chunks[0])
    assert not np.array_equal(one.chunks[0], walked(make, 0))


def walked(make: Make, index: int) -> list[np.ndarray]:
    walk = Walk(make(1))
    walk.attach(index)
    walk.step(index)
    return walk.chunks[index]


@pytest.mark.parametrize("lanes", ["auto", "thread"])
def test_a_new_theme_changes_the_code_of_its_row_alone(make: Make, lanes: str) -> None:
    walk = Walk(make(3), lanes=lanes)
    walk.attach(0, 1)
    walk.step(0, 1)
    row = walk.row(0)
    before = walk.model._codes.clone()
    walk.step(0, theme="frost")
    walk.engine._lanes.encode.sync()
    others = [number for number in range(3) if number != row]
    assert torch.equal(walk.model._codes[others], before[others])
    assert not torch.equal(walk.model._codes[row], before[row])
    assert torch.equal(walk.model._codes[row], walk.model.picture_encoder.codes_of(["frost"])[0])


@pytest.mark.parametrize("order", [("seed", "encode", "step"), ("encode", "seed", "step"), ("step", "seed", "encode")])
@pytest.mark.parametrize("lanes", ["auto", "thread"])
def test_torch_modes_of_lanes_do_not_get_in_each_others_way(make: Make, lanes: str, order: tuple[str, ...]) -> None:
    """What one lane made in inference mode is written by others, in and outside of it."""
    walk = Walk(make(2), lanes=lanes)
    walk.attach(0)
    walk.step(0)
    for theme in ("ember", "day"):
        for work in order:
            if work == "seed":
                walk.engine.reset(SessionInit("0", {"seed": 4, "theme": theme}))
                walk.steps[0] = 0
            walk.step(0, theme=theme if work != "step" else "day")
    assert all(not getattr(walk.model, name).is_inference() for name in STATE)
    assert all(torch.isfinite(getattr(walk.model, name)).all() for name in STATE)


def test_two_lanes_may_look_at_once(make: Make) -> None:
    """Pictures of seeds and themes come from one renderer."""
    model, alone = make(1), make(1)
    wanted = [alone.picture_encoder.codes_of([theme])[0] for theme in THEMES]
    together = threading.Barrier(3)
    codes: dict[int, torch.Tensor] = {}

    def look(number: int) -> None:
        together.wait(10)
        codes[number] = model.picture_encoder.codes_of([THEMES[number]])[0]

    threads = [threading.Thread(target=look, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert all(torch.equal(codes[number], wanted[number]) for number in range(3))


def test_steps_leave_nothing_behind(make: Make) -> None:
    walk = Walk(make(2))
    walk.attach(0, 1)

    def run(steps: int) -> int:
        for _ in range(steps):
            walk.step(0, 1)
            walk.chunks[0].clear()
            walk.chunks[1].clear()
        return tracemalloc.get_traced_memory()[0]

    addresses = [getattr(walk.model, name).data_ptr() for name in STATE]
    tracemalloc.start()
    try:
        before = run(20)
        grown = run(200) - before
    finally:
        tracemalloc.stop()
    assert [getattr(walk.model, name).data_ptr() for name in STATE] == addresses
    assert grown < 20_000, f"{grown} bytes in 200 steps"


@pytest.mark.parametrize("better", ["here", "there"])
def test_meeting_goes_only_where_the_picture_fits_better(
    make: Make, monkeypatch: pytest.MonkeyPatch, better: str
) -> None:
    model = make(2)
    model.seed({1: context(1)})
    here = model._places[1].clone()
    there = torch.tensor([5.5, 3.5, 0.0, 1.0])
    place = here if better == "here" else there
    with torch.inference_mode():
        picture = model._dreamer.decode(model._dreamer.predict(place[None], model._codes[1:2]))[0]
    look = PictureEncoding(there, model._codes[1].clone())
    monkeypatch.setattr(model.picture_encoder, "encode", lambda pictures: [look for _ in pictures])
    batch = StageBatch({0: None, 1: "one"}, {"one": {}}, {"one"}, {1: 0})
    model.align(batch, {1: picture})
    assert torch.equal(model._places[1], place)
