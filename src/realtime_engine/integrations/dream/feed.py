"""Pictures to learn from, made in a thread of their own while the network learns from those before."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from queue import Queue
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .dreamer import as_input
from .level import THEMES, TrueView
from .walks import Walkers

_WALKERS = 512
_WARM_UP = 90  # steps until the walkers have spread
_BETWEEN = 8  # steps between two batches
_AHEAD = 3  # batches made in advance


class Lesson(NamedTuple):
    """A batch of n pictures.

    Attributes:
        pictures: (n, 3, HEIGHT, WIDTH) in [-1, 1], themes one after the other.
        places: (n, 4) x, y in cells, cosine and sine of the yaw.
        others: (n,) for each picture the index of one in the same theme.
    """

    pictures: Tensor
    places: Tensor
    others: Tensor


def lessons(count: int, size: int, seed: int) -> Iterator[Lesson]:
    """``count`` batches of ``size`` pictures; the same seed gives the same ones.

    The thread that makes them has ended when the iteration ends, however it does. What is raised there is raised here.
    """
    queue: Queue[Lesson | BaseException] = Queue(_AHEAD)
    ended = threading.Event()

    def make() -> None:
        try:
            for lesson in _made(count, size, seed):
                if ended.is_set():
                    return
                queue.put(lesson)
        except BaseException as error:
            queue.put(error)

    maker = threading.Thread(target=make, name="lessons", daemon=True)
    try:
        maker.start()
        for _ in range(count):
            lesson = queue.get()
            if isinstance(lesson, BaseException):
                raise lesson
            yield lesson
    finally:
        ended.set()
        _see_off(maker, queue)


def _see_off(maker: threading.Thread, queue: Queue[Lesson | BaseException]) -> None:
    """Wait for its end, whoever is impatient: a process that ends while it computes is aborted."""
    while maker.is_alive():
        with contextlib.suppress(KeyboardInterrupt):  # the first one is on its way up already
            while not queue.empty():  # what it still puts, a lesson and an error at most, finds room then
                queue.get_nowait()
            maker.join()


def places_as_tensor(places: NDArray[np.float64]) -> Tensor:
    """(..., 3) x, y, yaw in turns -> (..., 4) x, y, cosine and sine of the yaw."""
    angle = places[..., 2] * (2 * np.pi)
    four = np.stack([places[..., 0], places[..., 1], np.cos(angle), np.sin(angle)], -1)
    return torch.from_numpy(four.astype(np.float32))


def _made(count: int, size: int, seed: int) -> Iterator[Lesson]:
    random = np.random.default_rng([seed, 4])
    walkers, view = Walkers(max(_WALKERS, size), seed), TrueView()
    walkers.walk(_WARM_UP)
    for _ in range(count):
        walkers.walk(_BETWEEN)
        chosen = random.choice(len(walkers.visitors), size, replace=False)
        themes = np.sort(random.integers(0, len(THEMES), size))
        pictures = view(walkers.visitors[chosen], themes)
        yield Lesson(
            as_input(pictures),
            places_as_tensor(walkers.places()[chosen]),
            torch.from_numpy(_others(themes, random)),
        )


def _others(themes: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    others = np.arange(len(themes))
    for theme in range(len(THEMES)):
        same = np.flatnonzero(themes == theme)
        others[same] = random.permutation(same)
    return others
