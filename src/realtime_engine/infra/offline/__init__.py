"""Engines without a server: replay of control logs, comparison of videos, and capacity measurements."""

from .capacity import CapacityPoint, measure_capacity
from .compare import FilmDifference, compare_films, psnr, ssim
from .plot import draw_capacity
from .replay import Replay
from .session import OfflineSession, RunFailed

__all__ = [
    "CapacityPoint",
    "FilmDifference",
    "OfflineSession",
    "Replay",
    "RunFailed",
    "compare_films",
    "draw_capacity",
    "measure_capacity",
    "psnr",
    "ssim",
]
