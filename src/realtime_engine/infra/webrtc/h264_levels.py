"""The level that an H.264 stream declares (ITU-T H.264, table A-1)."""

from __future__ import annotations

# level, largest picture and most of it in a second, both in macroblocks; from 3.1 on, which the SDP promises
_LEVELS = (
    ("3.1", 3_600, 108_000),
    ("3.2", 5_120, 216_000),
    ("4.0", 8_192, 245_760),
    ("4.2", 8_704, 522_240),
    ("5.0", 22_080, 589_824),
    ("5.1", 36_864, 983_040),
    ("5.2", 36_864, 2_073_600),
    ("6.2", 139_264, 16_711_680),
)


def level_for(width: int, height: int, fps: float) -> str:
    """The least level of at least 3.1 for pictures of this size and rate."""
    blocks = -(-width // 16) * -(-height // 16)
    fitting = (level for level, size, speed in _LEVELS if blocks <= size and blocks * fps <= speed)
    return next(fitting, _LEVELS[-1][0])
