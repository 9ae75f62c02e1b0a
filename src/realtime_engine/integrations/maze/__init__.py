"""A first-person world in NumPy: the default demo, and the example of a model with all three lanes."""

from .model import MazeModel

__all__ = ["MazeModel"]
