"""Prompts, given as text or in a file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .errors import InputError

MAX_BYTES = 1 << 20


def load_prompt(source: str | Path) -> str:
    """Load one prompt: a string itself, or the first non-empty line of a file given as :class:`~pathlib.Path`.

    Raises:
        InputError: the prompt is empty, or the file is not UTF-8 or larger than 1 MiB.
        OSError: the file cannot be read.
    """
    return load_prompts(source)[0]


def load_prompts(source: str | Path | Iterable[str]) -> list[str]:
    """Load prompts: a single string, the non-empty lines of a file, or a list of strings.

    Leading and trailing white space is removed.

    Raises:
        InputError: there is no prompt, a prompt is empty, or the file is not UTF-8 or larger than 1 MiB.
        OSError: the file cannot be read.
    """
    if isinstance(source, Path):
        return _of_file(source)
    prompts = [source] if isinstance(source, str) else list(source)
    for at, prompt in enumerate(prompts):
        if not isinstance(prompt, str) or not prompt.strip():
            raise InputError(
                f"prompt {at + 1} of {len(prompts)}", f"expected text, got {prompt!r}", "give it some words"
            )
    if not prompts:
        raise InputError("prompts", "the list is empty", "give at least one")
    return [prompt.strip() for prompt in prompts]


def _of_file(path: Path) -> list[str]:
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InputError(path, f"it is larger than {MAX_BYTES} bytes", "give a text file with one prompt per line")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            path,
            f"it is not UTF-8 text: byte {content[error.start]:#04x} in line {line}",
            "save it as UTF-8, for example with iconv -t UTF-8",
        ) from error
    prompts = [line.strip() for line in text.splitlines() if line.strip()]
    if not prompts:
        raise InputError(path, "no line has any text", "write a prompt into it")
    return prompts
