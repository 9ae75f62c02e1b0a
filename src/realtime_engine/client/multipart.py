"""Reading a ``multipart/x-mixed-replace`` body, whose parts tell their length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_HEAD_END = b"\r\n\r\n"
_MOST_HEAD_BYTES = 16 * 1024


class MultipartReader:
    """Parts out of bytes that come in any pieces. Knows no transport."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Mapping[str, str], bytes]]:
        """The parts that are complete with ``data``: headers, names in lower case, and body.

        Raises:
            ValueError: a part without ``Content-Length``, or headers that do not end.
        """
        self._buffer += data
        while (part := self._next()) is not None:
            yield part

    def _next(self) -> tuple[Mapping[str, str], bytes] | None:
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            if len(self._buffer) > _MOST_HEAD_BYTES:
                raise ValueError(f"no end of a part's headers within {_MOST_HEAD_BYTES} bytes: not a multipart stream")
            return None
        headers = _parse_headers(self._buffer[:end].decode("latin-1"))
        try:
            length = int(headers["content-length"])
        except (KeyError, ValueError) as error:
            raise ValueError(f"a part without a usable Content-Length: {headers!r}") from error
        begin = end + len(_HEAD_END)
        if len(self._buffer) < begin + length:
            return None
        body = bytes(self._buffer[begin : begin + length])
        del self._buffer[: begin + length]
        return headers, body


def _parse_headers(head: str) -> dict[str, str]:
    """The delimiter before the headers has no colon, and so falls away."""
    pairs = (line.partition(":") for line in head.split("\r\n"))
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}
