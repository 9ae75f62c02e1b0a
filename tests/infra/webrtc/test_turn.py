from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from realtime_engine.infra.webrtc.turn import TurnSecret


def test_credentials_end_at_a_time_and_are_signed() -> None:
    username, password = TurnSecret("north", lifetime_s=600).credentials("ann", now_s=1_000.9)
    assert username == "1600:ann"
    assert base64.b64decode(password) == hmac.digest(b"north", b"1600:ann", hashlib.sha1)


def test_each_viewer_time_and_secret_has_credentials_of_its_own() -> None:
    secret = TurnSecret("north")
    made = {secret.credentials("ann", 0), secret.credentials("bob", 0), secret.credentials("ann", 1)}
    made.add(TurnSecret("south").credentials("ann", 0))
    assert len({password for _, password in made}) == 4


def test_the_secret_is_not_shown() -> None:
    assert "north" not in repr(TurnSecret("north"))


def test_an_empty_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="turn_secret must be the secret"):
        TurnSecret("")
