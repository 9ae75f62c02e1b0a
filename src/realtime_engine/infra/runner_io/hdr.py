"""High dynamic range: what it is called in files.

Transfer characteristics are numbered in ITU-T H.273: 16 is PQ (SMPTE ST 2084), 18 is HLG (ARIB STD-B67).
"""

from __future__ import annotations

from pathlib import Path

NAMES = {16: "PQ", 18: "HLG"}

_HEAD = 1 << 18


def still_transfer(path: Path) -> int | None:
    """The transfer characteristics that a PNG (its cICP chunk) or AVIF (its nclx box) names, if it names any."""
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return _of_png(head)
    if head[4:8] == b"ftyp":
        return _of_avif(head)
    return None


def _of_png(head: bytes) -> int | None:
    """PNG, third edition, 11.3.2.6: primaries, transfer, matrix, range; before the pixels."""
    at = 8
    while at + 10 <= len(head):
        size, kind = int.from_bytes(head[at : at + 4], "big"), head[at + 4 : at + 8]
        if kind == b"cICP":
            return head[at + 9]
        if kind == b"IDAT":
            return None
        at += size + 12
    return None


def _of_avif(head: bytes) -> int | None:
    """ISO/IEC 14496-12, 12.1.5: primaries, transfer and matrix of 16 bits each."""
    at = head.find(b"colrnclx")
    if at < 0 or at + 12 > len(head):
        return None
    return int.from_bytes(head[at + 10 : at + 12], "big")
