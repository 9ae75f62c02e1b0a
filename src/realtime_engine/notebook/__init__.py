"""A demo in a notebook: :func:`show` serves it from the kernel and shows its page below the cell."""

from .notebook_demo import NotebookDemo, show

__all__ = ["NotebookDemo", "show"]
