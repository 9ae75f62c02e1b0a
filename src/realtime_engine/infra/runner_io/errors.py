"""What inputs can be refused for.

InputError(ValueError)   this input cannot be used
FetchError(OSError)      a URL could not be brought here

What a missing package or codec raises is named in :mod:`~..extras` and :mod:`~..mp4`.
"""

from __future__ import annotations


class InputError(ValueError):
    """An input that cannot be used. The message names it, says what is wrong, and what to do.

    Args:
        source: the file, URL or argument.
        problem: what is wrong with it.
        remedy: what to do.
    """

    def __init__(self, source: object, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}; {remedy}")


class FetchError(OSError):
    """A URL that could not be brought here; the arguments are those of :class:`InputError`."""

    def __init__(self, source: object, problem: str, remedy: str) -> None:
        super().__init__(f"{source}: {problem}; {remedy}")
