"""A streaming response that closes its source."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class ClosingStream(StreamingResponse):
    """A stream whose source is closed when the client disconnects, even in the middle of a part.

    Args:
        parts: the parts of the stream.
        headers: of the response.
        media_type: of the response, unless ``headers`` name it.
    """

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None] | AsyncGenerator[str, None],
        headers: Mapping[str, str],
        media_type: str | None = None,
    ) -> None:
        super().__init__(parts, headers=headers, media_type=media_type)
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, and close its source."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._parts.aclose()
