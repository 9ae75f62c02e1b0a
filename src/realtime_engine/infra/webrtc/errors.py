"""Errors of WebRTC connections.

::

    RealtimeEngineError
    └── WebRtcError
        ├── BadOfferError (ValueError)      an SDP offer cannot be answered: the message says why
        ├── BadCandidateError (ValueError)  a trickled fragment is malformed or belongs to another ICE session
        ├── BadAnswerError (ValueError)     the server's SDP answer cannot be used (receiving side)
        ├── NoCandidatesError               this machine has no address or port to offer; may be temporary
        └── PeerClosedError                 the connection is closed
"""

from __future__ import annotations

from ...core.errors import RealtimeEngineError


class WebRtcError(RealtimeEngineError):
    """Base of the errors of this package."""


class BadOfferError(WebRtcError, ValueError):
    """An SDP offer cannot be answered."""


class BadCandidateError(WebRtcError, ValueError):
    """A trickle ICE fragment is malformed, or it asks for an ICE restart, which is not supported."""


class BadAnswerError(WebRtcError, ValueError):
    """The server's SDP answer cannot be used."""


class NoCandidatesError(WebRtcError):
    """No local address could be gathered for the answer: no network, or no free UDP port."""


class PeerClosedError(WebRtcError):
    """The connection was closed, on either side."""
