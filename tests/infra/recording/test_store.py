from __future__ import annotations

from pathlib import Path

import pytest

from realtime_engine.infra.recording import RecordedFile, RecordingStore, StorageFull


@pytest.fixture
def store(tmp_path: Path) -> RecordingStore:
    return RecordingStore(tmp_path, max_bytes=100, max_total_bytes=1000)


def save(store: RecordingStore, session_id: str, number: int, part: int, data: bytes) -> str:
    name, file = store.create(session_id, number, part)
    file.append(data)
    file.close()
    return name


async def test_recordings_are_numbered_within_their_session(store: RecordingStore, tmp_path: Path) -> None:
    assert await store.allocate_number("one") == 1
    assert save(store, "one", 1, 1, b"abc") == "recording-1.mp4"
    assert save(store, "one", 1, 2, b"de") == "recording-1-2.mp4"
    assert (await store.allocate_number("one"), await store.allocate_number("two")) == (2, 1)
    for number in range(2, 11):
        save(store, "one", number, 1, b"x")
    names = [file.name for file in store.files("one")]
    assert names[:3] + names[-1:] == ["recording-1.mp4", "recording-1-2.mp4", "recording-2.mp4", "recording-10.mp4"]
    assert store.files("one")[0] == RecordedFile("recording-1.mp4", 3)
    assert store.files("two") == [] and store.files("unknown") == []
    assert store.path("one", "recording-1-2.mp4") == tmp_path / "one" / "recording-1-2.mp4"


@pytest.mark.parametrize(
    "name", ["recording-9.mp4", "../one/recording-1.mp4", "secret.txt", "", ".", "recording-1.mp4/"]
)
async def test_other_files_are_not_recordings(store: RecordingStore, tmp_path: Path, name: str) -> None:
    await store.allocate_number("one")
    save(store, "one", 1, 1, b"abc")
    (tmp_path / "one" / "secret.txt").write_text("secret")
    assert store.path("one", name) is None
    assert [file.name for file in store.files("one")] == ["recording-1.mp4"]


async def test_all_recordings_share_a_limit(store: RecordingStore) -> None:
    await store.allocate_number("one")
    save(store, "one", 1, 1, bytes(600))
    await store.allocate_number("two")
    assert store.reserve(300) and not store.reserve(101) and store.reserve(100)
    save(store, "two", 1, 1, bytes(400))
    with pytest.raises(StorageFull, match="1000 bytes"):
        await store.allocate_number("three")


async def test_deleted_recordings_free_space(store: RecordingStore, tmp_path: Path) -> None:
    await store.allocate_number("one")
    save(store, "one", 1, 1, bytes(1000))
    (tmp_path / "one" / "recording-1.mp4").unlink()
    assert await store.allocate_number("one") == 1
    assert store.reserve(1000)


async def test_an_existing_file_is_not_overwritten(store: RecordingStore) -> None:
    await store.allocate_number("one")
    save(store, "one", 1, 1, b"abc")
    with pytest.raises(FileExistsError):
        store.create("one", 1, 1)
    assert store.files("one") == [RecordedFile("recording-1.mp4", 3)]


async def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    store = RecordingStore(tmp_path / "gone", max_bytes=1, max_total_bytes=1)
    with pytest.raises(FileNotFoundError):
        await store.allocate_number("one")
