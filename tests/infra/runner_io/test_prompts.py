from __future__ import annotations

from pathlib import Path

import pytest

from realtime_engine.infra.runner_io import InputError, load_prompt, load_prompts
from realtime_engine.infra.runner_io.prompts import MAX_BYTES


def written(folder: Path, content: bytes) -> Path:
    path = folder / "prompts.txt"
    path.write_bytes(content)
    return path


def test_a_string_is_a_prompt() -> None:
    assert load_prompt(" a red fox \n") == "a red fox"
    assert load_prompts("two\nlines") == ["two\nlines"]


def test_a_list_is_many() -> None:
    assert load_prompts(["a fox", " a crow"]) == ["a fox", "a crow"]


def test_a_file_has_one_a_line(tmp_path: Path) -> None:
    path = written(tmp_path, "\n  \r\n a füchsin \r\na crow\n\n".encode())
    assert load_prompt(path) == "a füchsin"
    assert load_prompts(path) == ["a füchsin", "a crow"]


def test_a_byte_order_mark_is_no_word(tmp_path: Path) -> None:
    assert load_prompt(written(tmp_path, b"\xef\xbb\xbfa fox")) == "a fox"


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"prompts\.txt: it is not UTF-8 text: byte 0xfc in line 2; save it as UTF-8"):
        load_prompt(written(tmp_path, "a fox\nf\xfcchsin".encode("latin-1")))


@pytest.mark.parametrize("content", [b"", b" \n\t\n"])
def test_a_file_without_text_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError, match=r"prompts\.txt: no line has any text; write a prompt"):
        load_prompt(written(tmp_path, content))


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="larger than"):
        load_prompts(written(tmp_path, b"x" * (MAX_BYTES + 1)))


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([], "the list is empty"),
        (["a", " "], "prompt 2 of 2: expected text, got ' '"),
        ([1], "prompt 1 of 1"),
        ("", "got ''"),
    ],
)
def test_nothing_is_no_prompt(prompts: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_prompts(prompts)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        load_prompt(tmp_path / "none")
