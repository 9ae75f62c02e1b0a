from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from realtime_engine.integrations.dream import feed
from realtime_engine.integrations.dream.dreamer import as_input
from realtime_engine.integrations.dream.feed import Lesson, lessons, places_as_tensor
from realtime_engine.integrations.dream.level import HEIGHT, THEMES, WIDTH, TrueView

SIZE = 24


@pytest.fixture(autouse=True)
def few_walkers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_WALKERS", 32)
    monkeypatch.setattr(feed, "_WARM_UP", 5)


def makers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lessons"]


def themes_of(lesson: Lesson) -> np.ndarray:
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
    (lesson,) = lessons(1, SIZE, seed=1)
    assert lesson.pictures.shape == (SIZE, 3, HEIGHT, WIDTH) and lesson.pictures.dtype == torch.float32
    assert lesson.pictures.min() >= -1 and lesson.pictures.max() <= 1
    assert lesson.places.shape == (SIZE, 4)
    themes = themes_of(lesson)
    assert (np.diff(themes) >= 0).all() and len(set(themes.tolist())) == len(THEMES)


def test_others_are_pictures_in_the_same_theme() -> None:
    (lesson,) = lessons(1, SIZE, seed=1)
    themes, others = themes_of(lesson), lesson.others.numpy()
    assert sorted(others.tolist()) == list(range(SIZE))
    assert np.array_equal(themes[others], themes)
    assert (others != np.arange(SIZE)).mean() > 0.5


def test_lessons_follow_from_the_seed() -> None:
    one, same, other = (list(lessons(3, SIZE, seed)) for seed in (1, 1, 2))
    assert len(one) == 3
    for a, b, c in zip(one, same, other, strict=True):
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
        assert not torch.equal(a.pictures, c.pictures)
    assert not torch.equal(one[0].places, one[1].places)


def test_the_thread_ends_with_the_last_lesson() -> None:
    feed_ = lessons(2, SIZE, seed=1)
    assert not makers()
    next(feed_)
    assert len(makers()) == 1
    assert len(list(feed_)) == 1
    assert not makers()


def test_stopping_early_ends_a_thread_that_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    made, full = 0, threading.Event()

    def endless(count: int, size: int, seed: int) -> Iterator[Lesson]:
        nonlocal made
        lesson = Lesson(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        for _ in range(count):
            made += 1
            if made == feed._AHEAD + 2:  # one was taken, so many wait in the queue: this one finds no room
                full.set()
            yield lesson

    monkeypatch.setattr(feed, "_made", endless)
    feed_ = lessons(1000, SIZE, seed=1)
    next(feed_)
    assert full.wait(20)
    feed_.close()
    assert not makers()
    assert made <= feed._AHEAD + 4


def test_what_goes_wrong_in_the_thread_comes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(count: int, size: int, seed: int) -> Iterator[Lesson]:
        yield Lesson(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        raise MemoryError("no room for a picture")

    monkeypatch.setattr(feed, "_made", failing)
    feed_ = lessons(5, SIZE, seed=1)
    next(feed_)
    with pytest.raises(MemoryError, match="no room for a picture"):
        next(feed_)
    assert not makers()


def test_stopping_early_survives_an_error_that_nobody_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def failing(count: int, size: int, seed: int) -> Iterator[Lesson]:
        for _ in range(2):
            yield Lesson(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        failed.set()
        raise MemoryError

    monkeypatch.setattr(feed, "_made", failing)
    feed_ = lessons(5, SIZE, seed=1)
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

    def slow(count: int, size: int, seed: int) -> Iterator[Lesson]:
        yield Lesson(torch.zeros(1), torch.zeros(1), torch.zeros(1))
        assert go.wait(10)

    monkeypatch.setattr(feed, "_made", slow)
    monkeypatch.setattr(threading, "Thread", Impatient)
    feed_ = lessons(2, SIZE, seed=1)
    next(feed_)
    with pytest.raises(KeyboardInterrupt):
        feed_.throw(KeyboardInterrupt())
    assert go.is_set() and not makers()
