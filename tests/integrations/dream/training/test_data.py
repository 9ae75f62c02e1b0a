from __future__ import annotations

import math
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from realtime_engine.integrations.dream.inference import as_input
from realtime_engine.integrations.dream.level import CONTROLS, HEIGHT, SIDE, STEP_S, THEMES, WIDTH, TrueView, level
from realtime_engine.integrations.dream.training import data as feed
from realtime_engine.integrations.dream.training.data import (
    PictureBatch,
    Walkers,
    control_vectors,
    nearest_ground,
    picture_batches,
    places_as_tensor,
    wall_corrections,
)
from realtime_engine.integrations.maze.motion import RADIUS, Motion, MotionControls

SIZE = 24


@pytest.fixture(autouse=True)
def few_walkers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_WALKERS", 32)
    monkeypatch.setattr(feed, "_WARM_UP", 5)


def makers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "picture-batches"]


def themes_of(lesson: PictureBatch) -> np.ndarray:
    """The theme in which a true picture from the lesson's place is nearest."""
    yaw = torch.atan2(lesson.places[:, 3], lesson.places[:, 2]).numpy() / (2 * np.pi)
    places = np.column_stack([lesson.places[:, :2].numpy(), yaw]).astype(np.float64)
    off = []
    for theme in range(len(THEMES)):
        true = as_input(TrueView().at(places, np.full(len(places), theme)))
        off.append((true - lesson.pictures).abs().mean((1, 2, 3)).numpy())
    assert np.min(off, 0).max() < 0.02
    return np.argmin(off, 0)


def test_a_lesson_shows_what_is_seen_from_its_places() -> None:
    (lesson,) = picture_batches(1, SIZE, seed=1)
    assert lesson.pictures.shape == (SIZE, 3, HEIGHT, WIDTH) and lesson.pictures.dtype == torch.float32
    assert lesson.pictures.min() >= -1 and lesson.pictures.max() <= 1
    assert lesson.places.shape == (SIZE, 4)
    themes = themes_of(lesson)
    assert (np.diff(themes) >= 0).all() and len(set(themes.tolist())) == len(THEMES)


def test_others_are_pictures_in_the_same_theme() -> None:
    (lesson,) = picture_batches(1, SIZE, seed=1)
    themes, others = themes_of(lesson), lesson.others.numpy()
    assert sorted(others.tolist()) == list(range(SIZE))
    assert np.array_equal(themes[others], themes)
    assert (others != np.arange(SIZE)).mean() > 0.5


def test_lessons_follow_from_the_seed() -> None:
    one, same, other = (list(picture_batches(3, SIZE, seed)) for seed in (1, 1, 2))
    assert len(one) == 3
    for a, b, c in zip(one, same, other, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        assert not torch.equal(a.pictures, c.pictures)
    assert not torch.equal(one[0].places, one[1].places)


def test_the_thread_ends_with_the_last_lesson() -> None:
    feed_ = picture_batches(2, SIZE, seed=1)
    assert not makers()
    next(feed_)
    assert len(makers()) == 1
    assert len(list(feed_)) == 1
    assert not makers()


def test_stopping_early_ends_a_thread_that_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made, full = 0, threading.Event()

    def endless(count: int, size: int, seed: int) -> Iterator[PictureBatch]:
        nonlocal made
        lesson = PictureBatch(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        for _ in range(count):
            made += 1
            if made == feed._PREFETCH + 2:  # one was taken, so many wait in the queue: this one finds no room
                full.set()
            yield lesson

    monkeypatch.setattr(feed, "_generate_batches", endless)
    feed_ = picture_batches(1000, SIZE, seed=1)
    next(feed_)
    assert full.wait(20)
    feed_.close()
    assert not makers()
    assert made <= feed._PREFETCH + 4


def test_what_goes_wrong_in_the_thread_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(count: int, size: int, seed: int) -> Iterator[PictureBatch]:
        yield PictureBatch(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        raise MemoryError("no room for a picture")

    monkeypatch.setattr(feed, "_generate_batches", failing)
    feed_ = picture_batches(5, SIZE, seed=1)
    next(feed_)
    with pytest.raises(MemoryError, match="no room for a picture"):
        next(feed_)
    assert not makers()


def test_stopping_early_survives_an_error_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def failing(count: int, size: int, seed: int) -> Iterator[PictureBatch]:
        for _ in range(2):
            yield PictureBatch(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        failed.set()
        raise MemoryError

    monkeypatch.setattr(feed, "_generate_batches", failing)
    feed_ = picture_batches(5, SIZE, seed=1)
    next(feed_)
    assert failed.wait(20)
    feed_.close()
    assert not makers()


def test_places_as_tensor() -> None:
    got = places_as_tensor(np.array([[1.5, 2.5, 0.25], [3, 4, 0.5]]))
    assert torch.allclose(got, torch.tensor([[1.5, 2.5, 0, 1], [3, 4, -1, 0]]), atol=1e-6)
    assert got.dtype == torch.float32


def test_a_second_ctrl_c_does_not_leave_the_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    class Impatient(threading.Thread):
        def join(self, timeout: float | None = None) -> None:
            if not go.is_set():
                go.set()
                raise KeyboardInterrupt
            super().join(timeout)

    def slow(count: int, size: int, seed: int) -> Iterator[PictureBatch]:
        yield PictureBatch(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        assert go.wait(10)

    monkeypatch.setattr(feed, "_generate_batches", slow)
    monkeypatch.setattr(threading, "Thread", Impatient)
    feed_ = picture_batches(2, SIZE, seed=1)
    next(feed_)
    with pytest.raises(KeyboardInterrupt):
        feed_.throw(KeyboardInterrupt())
    assert go.is_set() and not makers()


def test_nobody_ever_stands_in_a_wall() -> None:
    places = Walkers(64, seed=1).walk(300).places
    solid = level().grid.solid
    for dx in (-RADIUS, RADIUS):
        for dy in (-RADIUS, RADIUS):
            assert not solid[(places[..., 1] + dy).astype(int), (places[..., 0] + dx).astype(int)].any()


def test_walkers_see_the_whole_level_and_all_directions() -> None:
    places = Walkers(128, seed=1).walk(300).places.reshape(-1, 3)
    visited = {(int(x), int(y)) for x, y in places[:, :2].tolist()}
    assert visited == {(x, y) for y, x in np.argwhere(~level().grid.solid).tolist()}
    assert (np.histogram(places[:, 2], 16, (0, 1))[0] > 0).all()


def test_walkers_get_about_and_bump_into_walls_too() -> None:
    walks = Walkers(64, seed=1).walk(300)
    way = np.hypot(*np.moveaxis(np.diff(walks.places[..., :2], axis=0), 2, 0))
    assert way.sum(0).mean() > 5  # cells in ten seconds
    wanted = np.hypot(walks.controls[..., 0], walks.controls[..., 1]) > 0.5
    assert 0 < (way[wanted] < 0.2 * 2.1 * STEP_S).mean() < 0.5


def test_controls_are_within_their_range() -> None:
    controls = Walkers(64, seed=1).walk(300).controls
    assert controls.shape == (300, 64, CONTROLS) and controls.dtype == np.float32
    forward, strafe, running, aside, turn, pointer = np.moveaxis(controls, 2, 0)
    assert np.abs([forward, strafe, turn]).max() <= 1
    assert min(forward.min(), strafe.min(), turn.min()) == -1 and max(forward.max(), strafe.max(), turn.max()) == 1
    run = (running != 0) | (aside != 0)
    assert np.array_equal(running[run], forward[run]) and np.array_equal(aside[run], strafe[run])
    assert 0.05 < run.mean() < 0.5
    assert 0 < (pointer != 0).mean() < 0.2 and 0.1 < pointer.std() * math.sqrt(1 / 0.08) < 0.5


def test_places_are_those_of_the_mazes_motion() -> None:
    walkers = Walkers(8, seed=3)
    walkers.walk(40)
    visitors = walkers.visitors.copy()
    walks = walkers.walk(40)
    motion, solid = Motion(STEP_S), np.tile(level().grid.solid.ravel(), (8, 1))
    for told, place in zip(walks.controls.astype(float), walks.places[1:], strict=True):
        run = (told[:, 2] != 0) | (told[:, 3] != 0)
        pointer = np.stack([told[:, 5] * 100, np.zeros(8)], 1)
        controls = MotionControls.of(told[:, 0], told[:, 1], told[:, 4], run, pointer)
        motion.look(visitors, controls)
        motion.walk(visitors, controls, solid)
        off = np.stack([visitors[name] for name in ("x", "y", "yaw")], 1) - place
        off[:, 2] -= np.rint(off[:, 2])
        assert np.abs(off).max() < 1e-5


def test_walks_follow_from_the_seed() -> None:
    one, same, other = (Walkers(16, seed).walk(50) for seed in (5, 5, 6))
    assert np.array_equal(one.places, same.places) and np.array_equal(one.controls, same.controls)
    assert not np.array_equal(one.places[0], other.places[0]) and not np.array_equal(one.controls, other.controls)


def test_a_walk_goes_on_where_the_one_before_ended() -> None:
    walkers = Walkers(16, seed=5)
    first, second = walkers.walk(20), walkers.walk(30)
    whole = Walkers(16, seed=5).walk(50)
    assert np.array_equal(np.concatenate([first.places, second.places[1:]]), whole.places)
    assert np.array_equal(np.concatenate([first.controls, second.controls]), whole.controls)


def test_turning_left_turns_left_on_the_spot() -> None:
    walkers = Walkers(16, seed=5)
    walkers.walk(50)
    walkers.rest()
    walks = walkers.turn_left(60)
    assert np.array_equal(walks.controls, np.tile(np.float32([0, 0, 0, 0, -1, 0]), (60, 16, 1)))
    turned = np.diff(walks.places[..., 2], axis=0)
    turned -= np.rint(turned)
    assert (turned < 0).all() and np.allclose(turned[-1], -0.3 * STEP_S, atol=1e-4)
    assert np.array_equal(walks.places[-1, :, :2], walks.places[0, :, :2])


def test_rest_stops_everybody_where_they_are() -> None:
    walkers = Walkers(16, seed=5)
    walkers.walk(50)
    before = walkers.places()
    assert walkers.visitors["ahead"].any()
    walkers.rest()
    nothing = np.zeros(16)
    still = MotionControls.of(nothing, nothing, nothing, np.zeros(16, bool), np.zeros((16, 2)))
    Motion(STEP_S).walk(walkers.visitors, still, np.tile(level().grid.solid.ravel(), (16, 1)))
    assert np.array_equal(walkers.places(), before)


def test_control_numbers_tell_running_apart() -> None:
    told = control_vectors(
        MotionControls(
            [
                {"forward": 1, "strafe": -0.5, "turn": 0.25, "events": [{"kind": "pointer_move", "dx": 50, "dy": 9}]},
                {"forward": 1, "strafe": -0.5, "run": True},
            ]
        )
    )
    assert told.dtype == np.float32
    assert told.tolist() == [[1, -0.5, 0, 0, 0.25, 0.5], [1, -0.5, 1, -0.5, 0, 0]]


def touches_a_wall(x: float, y: float) -> bool:
    """Whether the square that a visitor fills reaches into a wall, corner by corner; by a hair is not."""
    half = RADIUS - 1e-9
    return any(level().grid.solid[int(y + dy), int(x + dx)] for dx in (-half, half) for dy in (-half, half))


def test_who_touches_no_wall_stays() -> None:
    random = np.random.default_rng(1)
    points = random.uniform(RADIUS, SIDE - RADIUS, (600, 2))
    free = np.array([not touches_a_wall(x, y) for x, y in points])
    assert 0.1 < free.mean() < 0.9
    stays = (nearest_ground(points) == points).all(1)
    np.testing.assert_array_equal(stays, free)


def test_the_others_are_sent_to_the_nearest_place_of_all() -> None:
    random = np.random.default_rng(2)
    fine = np.stack(np.meshgrid(*[np.arange(0, SIDE, 0.02)] * 2), -1).reshape(-1, 2)
    inner = fine[((fine > RADIUS) & (fine < SIDE - RADIUS)).all(1)]
    ground = inner[[not touches_a_wall(x, y) for x, y in inner]]
    for point in random.uniform(0, SIDE, (60, 2)):
        found = nearest_ground(point[None])[0]
        assert not touches_a_wall(*found)
        nearest = np.hypot(*(ground - point).T).min()
        assert np.hypot(*(found - point)) <= nearest + 1e-9
        assert np.hypot(*(found - point)) > nearest - 0.03  # the grid is that coarse


def test_walkers_are_on_the_ground_always() -> None:
    walkers = Walkers(64, seed=5)
    places = walkers.walk(300).places[..., :2].reshape(-1, 2)
    assert np.hypot(*(nearest_ground(places) - places).T).max() < 1e-5


def test_pushes_lead_back_to_the_ground_no_faster_than_they_may() -> None:
    ends, ways, corrections = wall_corrections(4000, np.random.default_rng(3))
    length, pushed = np.hypot(*ways.T), np.hypot(*corrections.T)
    assert length.min() >= 0.0099 and length.max() <= 0.171
    assert (pushed <= 1.4 * length + 1e-6).all()
    arrived = ends + corrections
    left = np.hypot(*(nearest_ground(arrived.astype(float)) - arrived).T)
    before = np.hypot(*(nearest_ground(ends.astype(float)) - ends).T)
    np.testing.assert_allclose(left, before - pushed, atol=2e-5)
    assert 0.2 < (pushed > 0).mean() < 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_pushes_follow_from_the_generator(seed: int) -> None:
    first, again = (wall_corrections(16, np.random.default_rng(seed)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
