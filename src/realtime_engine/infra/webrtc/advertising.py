"""What a description says about where this side is, when the address that counts is not one of this machine's own."""

from __future__ import annotations

import ipaddress

_CANDIDATE = "a=candidate:"
_CONNECTION = "c=IN IP"
_HOST_FIELD, _TYPE_FIELD = 4, 7


def check_public_address(text: str) -> None:
    """Errors: ``ValueError`` when ``text`` is not an address that somebody could send to."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError as error:
        raise ValueError(
            f"public_address must be an IP address such as 203.0.113.5, got {text!r}: look a name up first"
        ) from error
    if address.is_unspecified or address.is_multicast:
        raise ValueError(f"public_address must be the address that viewers send to, got {text!r}")


def advertise(sdp: str, public_address: str) -> str:
    """``sdp`` with ``public_address`` in place of this machine's own addresses of the same family (RFC 8839).

    Ports stay as they are: whatever translates the address must forward them one to one.
    """
    public = ipaddress.ip_address(public_address)
    own = {fields[_HOST_FIELD] for line in sdp.splitlines() if (fields := _host_candidate(line))}
    own = {address for address in own if ipaddress.ip_address(address).version == public.version}
    lines: list[str] = []
    for line in sdp.splitlines():
        fields = _host_candidate(line)
        if fields and fields[_HOST_FIELD] in own:
            fields[_HOST_FIELD] = public_address
            line = " ".join(fields)
        elif line.startswith(_CONNECTION) and line.split()[-1] in own:
            line = f"{_CONNECTION}{public.version} {public_address}"
        lines.append(line)
    return "\r\n".join(lines) + "\r\n"


def hide_related_addresses(sdp: str) -> str:
    """``sdp`` whose relayed candidates do not tell the address behind the relay (RFC 9429 section 3.5.3)."""
    return "\r\n".join(map(_without_related, sdp.splitlines())) + "\r\n"


def _host_candidate(line: str) -> list[str] | None:
    fields = line.split()
    is_host = line.startswith(_CANDIDATE) and len(fields) > _TYPE_FIELD and fields[_TYPE_FIELD] == "host"
    return fields if is_host else None


def _without_related(line: str) -> str:
    fields = line.split()
    if line.startswith(_CANDIDATE) and "raddr" in fields and "rport" in fields:
        fields[fields.index("raddr") + 1] = "0.0.0.0"
        fields[fields.index("rport") + 1] = "9"
        return " ".join(fields)
    return line
