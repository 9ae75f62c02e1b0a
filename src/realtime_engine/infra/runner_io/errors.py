"""Errors of inputs.

InputError(ValueError)   the input cannot be used
FetchError(OSError)      a URL could not be downloaded

The errors for a missing package or codec are in :mod:`~..extras` and :mod:`~..mp4`.
"""

from __future__ import annotations


class InputError(ValueError):
    """The input cannot be used. The message names it, the problem and the remedy.

    Args:
        source: the file, URL or argument.
        problem: the problem.
        remedy: what to do about it.
    """

    def __init__(self, source: object, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}; {remedy}")


class FetchError(OSError):
    """A URL could not be downloaded. The arguments are those of :class:`InputError`."""

    def __init__(self, source: object, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}; {remedy}")
