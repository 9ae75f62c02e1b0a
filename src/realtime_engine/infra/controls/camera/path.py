"""The way of a camera whose velocities are constant for a while, in closed form."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

_SMALL = 1e-4  # radians: below, the series are exact to the last digit


def exp_se3(twist: ArrayLike, seconds: float = 1.0) -> NDArray[np.float64]:
    """The motion (4, 4) of a body that moves by a constant velocity in its own axes.

    ``pose @ exp_se3(twist, seconds)`` is where it is after ``seconds``: the exponential of SE(3), by Rodrigues' formula
    for the rotation and its integral for the translation (Murray, Li and Sastry, A Mathematical Introduction to Robotic
    Manipulation, 1994, section 2.3).

    Args:
        twist: (6,), velocity in units per second, then angular velocity in radians per second.
    """
    moved = np.asarray(twist, np.float64)
    if moved.shape != (6,):
        raise ValueError(f"a twist has shape (6,): velocity, then angular velocity; got {moved.shape}")
    v, w = moved[:3] * seconds, moved[3:] * seconds
    angle = float(np.linalg.norm(w))
    cross = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    if angle < _SMALL:
        a, b, c = 1 - angle**2 / 6, 0.5 - angle**2 / 24, 1 / 6 - angle**2 / 120
    else:
        a, b = np.sin(angle) / angle, 2 * (np.sin(angle / 2) / angle) ** 2
        c = (1 - a) / angle**2
    square = cross @ cross
    motion = np.eye(4)
    motion[:3, :3] += a * cross + b * square
    motion[:3, 3] = (np.eye(3) + b * cross + c * square) @ v
    return motion


def rotation(yaw: float, pitch: float) -> NDArray[np.float64]:
    """(3, 3): axes of an RDF camera that has turned ``yaw`` radians to the right, and then ``pitch`` up."""
    cy, sy, cp, sp = np.cos(yaw), np.sin(yaw), np.cos(pitch), np.sin(pitch)
    return np.array([[cy, sy * sp, sy * cp], [0.0, cp, -sp], [-sy, cy * sp, cy * cp]])


def walk_arc(
    velocity: ArrayLike, yaw: float, pitch: float, yaw_rate: float, pitch_rate: float, seconds: float
) -> NDArray[np.float64]:
    """How far (3,) a camera goes by a constant ``velocity`` in its own axes while it turns at constant rates.

    Yaw turns about the world's vertical and pitch about the camera's own, so the two together are no screw motion. The
    way is the integral of :func:`rotation` times ``velocity``; its products of sines and cosines are sums of those of
    yaw + pitch and yaw - pitch, each of which has a closed form. Without pitch it is the arc of :func:`exp_se3`.

    Args:
        velocity: (3,), right, down and forward, in units per second.
        yaw, pitch: radians at the begin. yaw_rate, pitch_rate: radians per second.
    """
    right, down, forward = np.asarray(velocity, np.float64)
    by_yaw = _swing(yaw, yaw_rate, seconds)
    by_pitch = _swing(pitch, pitch_rate, seconds)
    both = _swing(yaw + pitch, yaw_rate + pitch_rate, seconds)
    apart = _swing(yaw - pitch, yaw_rate - pitch_rate, seconds)
    cos_cos, sin_sin = (apart.real + both.real) / 2, (apart.real - both.real) / 2
    sin_cos, cos_sin = (both.imag + apart.imag) / 2, (both.imag - apart.imag) / 2
    return np.array(
        [
            by_yaw.real * right + sin_sin * down + sin_cos * forward,
            by_pitch.real * down - by_pitch.imag * forward,
            -by_yaw.imag * right + cos_sin * down + cos_cos * forward,
        ]
    )


def _swing(angle: float, rate: float, seconds: float) -> complex:
    """The integral of ``exp(i (angle + rate t))`` over ``seconds``."""
    half = rate * seconds / 2
    return complex(seconds * np.exp(1j * (angle + half)) * np.sinc(half / np.pi))
