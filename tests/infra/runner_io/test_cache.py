from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from realtime_engine.infra.runner_io import Cache, FetchError, InputError, local_path

from ..full_disk import full_after
from .web import Web, web

CONTENT = b"pixels" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def site() -> Iterator[Web]:
    with web() as site:
        yield site


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", max_file_bytes=100_000, timeout_s=10)


def files(cache: Cache) -> list[Path]:
    return sorted(cache.directory.iterdir()) if cache.directory.exists() else []


def test_a_url_is_asked_for_once(site: Web, cache: Cache) -> None:
    url = site.put("a.png", CONTENT)
    path = cache.fetch(url)
    assert path.read_bytes() == CONTENT
    assert path.suffix == ".png"
    assert cache.fetch(url) == path
    assert site.asked == ["/a.png"]
    assert files(cache) == [path]


def test_urls_do_not_share_a_file(site: Web, cache: Cache) -> None:
    site.put("a.png", CONTENT)
    assert cache.fetch(site.url + "a.png?1") != cache.fetch(site.url + "a.png?2")


def test_content_without_length_is_taken(site: Web, cache: Cache) -> None:
    assert cache.fetch(site.put("a", CONTENT, length=-1)).read_bytes() == CONTENT


def test_a_checksum_is_checked(site: Web, cache: Cache) -> None:
    assert cache.fetch(site.put("a", CONTENT), sha256=SHA256.upper()).read_bytes() == CONTENT
    with pytest.raises(InputError, match=f"/b: its SHA-256 is .*, not {SHA256}; check"):
        cache.fetch(site.put("b", b"other"), sha256=SHA256)
    assert len(files(cache)) == 1


def test_what_was_kept_and_has_another_checksum_is_asked_for_again(site: Web, cache: Cache) -> None:
    url = site.put("a", b"old")
    cache.fetch(url)
    site.put("a", CONTENT)
    assert cache.fetch(url).read_bytes() == b"old"
    assert cache.fetch(url, sha256=SHA256).read_bytes() == CONTENT


def test_what_is_too_large_is_not_taken(site: Web, cache: Cache) -> None:
    for length in (None, -1):
        with pytest.raises(FetchError, match=r"/a: it is larger than 100000 bytes"):
            cache.fetch(site.put("a", bytes(100_001), length=length))
    assert files(cache) == []


def test_what_breaks_off_is_not_kept(site: Web, cache: Cache) -> None:
    with pytest.raises(FetchError, match=f"/a: it broke off after {len(CONTENT)} of 7000 bytes; try again"):
        cache.fetch(site.put("a", CONTENT, length=7000))
    assert files(cache) == []


def test_a_server_that_hangs_is_left(site: Web, tmp_path: Path) -> None:
    over = threading.Event()
    url = site.say("a", lambda request: over.wait(20) and None)
    try:
        with pytest.raises(FetchError, match=r"/a: .*(no answer within 0.2 s|timed out)"):
            Cache(tmp_path / "cache", timeout_s=0.2).fetch(url)
    finally:
        over.set()


def test_a_server_that_drips_is_left(site: Web, tmp_path: Path) -> None:
    over = threading.Event()

    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not over.wait(0.02):
            request.wfile.write(b"x")
            request.wfile.flush()

    try:
        with pytest.raises(FetchError, match=r"/a: incomplete after 0.3 s; allow more time"):
            Cache(tmp_path / "cache", timeout_s=0.3).fetch(site.say("a", drip))
    finally:
        over.set()
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_error_is_named_without_secrets(site: Web, cache: Cache) -> None:
    url = site.url + "none?token=word"
    with pytest.raises(FetchError, match=r"/none: the server answers 404 Not Found; check the URL") as caught:
        cache.fetch(url)
    assert "word" not in str(caught.value)


def test_users_and_passwords_are_no_part_of_a_url(cache: Cache) -> None:
    with pytest.raises(InputError, match=r"^http://127.0.0.1/a: it has a user or password in it") as caught:
        cache.fetch("http://me:word@127.0.0.1/a")
    assert "word@" not in str(caught.value)


def test_a_server_that_is_not_there_is_named(site: Web, cache: Cache) -> None:
    with pytest.raises(FetchError, match=r"http://127.0.0.1:1/a: it cannot be .*refused"):
        cache.fetch("http://127.0.0.1:1/a")
    assert files(cache) == []


def test_redirects_are_followed_within_http(site: Web, cache: Cache) -> None:
    site.put("a", CONTENT)
    assert cache.fetch(site.redirect("b", "/a")).read_bytes() == CONTENT
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/a"):
        with pytest.raises(FetchError, match=r"/c: .*(it leads to ftp://127.0.0.1/a; give|not allowed)"):
            cache.fetch(site.redirect("c", target))


@pytest.mark.parametrize(
    "url", ["ftp://a/b", "file:///etc/passwd", "http://", "http://a b/", "http://a:x/", "http://ü/", "a"]
)
def test_only_urls_of_the_web_are_fetched(cache: Cache, url: str) -> None:
    with pytest.raises(InputError, match="it is not an http or https URL"):
        cache.fetch(url)


def test_a_full_disk_is_named_and_leaves_nothing(site: Web, cache: Cache) -> None:
    with full_after(1000), pytest.raises(FetchError, match=r"/a: it cannot be downloaded or stored.*File too large"):
        cache.fetch(site.put("a", CONTENT))
    assert files(cache) == []


def test_what_was_not_used_for_longest_goes(site: Web, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", max_bytes=25)
    paths = [cache.fetch(site.put(name, bytes(10))) for name in "ab"]
    for age, path in ((50, paths[0]), (100, paths[1])):
        os.utime(path, (1000 - age, 1000 - age))
    cache.fetch(site.url + "a")  # used again
    newest = cache.fetch(site.put("c", bytes(10)))
    assert files(cache) == sorted([paths[0], newest])


def test_the_newest_stays_however_large_it_is(site: Web, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", max_bytes=5)
    old = cache.fetch(site.put("a", bytes(4)))
    newest = cache.fetch(site.put("b", bytes(10)))
    assert files(cache) == [newest]
    assert old != newest


def test_what_dead_transfers_left_goes(site: Web, cache: Cache) -> None:
    cache.directory.mkdir(parents=True)
    stale, running = cache.directory / ".a.part", cache.directory / ".b.part"
    stale.touch()
    running.touch()
    os.utime(stale, (1000, 1000))
    cache.fetch(site.put("a", CONTENT))
    assert not stale.exists()
    assert running.exists()


def test_its_place_is_that_of_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Cache().directory == tmp_path / "realtime-engine"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Cache().directory == Path.home() / ".cache" / "realtime-engine"


@pytest.mark.parametrize("bound", ["max_bytes", "max_file_bytes", "timeout_s"])
def test_bounds_are_above_zero(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound} is above 0"):
        Cache(**{bound: 0})


def test_a_path_is_itself(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    assert local_path(tmp_path / "a") == tmp_path / "a"
    assert local_path(str(tmp_path / "a"), sha256=SHA256) == tmp_path / "a"
    with pytest.raises(InputError, match="its SHA-256 is"):
        local_path(tmp_path / "a", sha256="0" * 64)
    with pytest.raises(InputError, match="it is not a SHA-256; give 64"):
        local_path(tmp_path / "a", sha256="123")
    with pytest.raises(InputError, match="it is a directory"):
        local_path(tmp_path)
    with pytest.raises(FileNotFoundError, match="none: there is no such file; check the path"):
        local_path(tmp_path / "none")


def test_a_url_is_what_it_leads_to(site: Web, cache: Cache) -> None:
    assert local_path(site.put("a", CONTENT), cache=cache).read_bytes() == CONTENT
