"""Credentials for a TURN server that are good for a limited time (draft-uberti-behave-turn-rest-00)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

_DAY_S = 24 * 3600


@dataclass(frozen=True)
class TurnSecret:
    """What this server shares with its TURN server (coturn: ``use-auth-secret`` and ``static-auth-secret``).

    Attributes:
        secret: the shared secret; it never leaves this process.
        lifetime_s: how long credentials are good for, in seconds.

    Raises:
        ValueError: the secret is empty.
    """

    secret: str = field(repr=False)
    lifetime_s: int = _DAY_S

    def __post_init__(self) -> None:
        if not self.secret:
            raise ValueError("turn_secret must be the secret that the TURN server was given, got an empty text")

    def credentials(self, user: str, now_s: float) -> tuple[str, str]:
        """User name and password for ``user``, whom the server's log then names.

        Args:
            now_s: seconds since the epoch, as the TURN server's clock has them.
        """
        username = f"{int(now_s) + self.lifetime_s}:{user}"
        digest = hmac.new(self.secret.encode(), username.encode(), hashlib.sha1).digest()
        return username, base64.b64encode(digest).decode()
