"""Griffe extension for the documentation site: reads the Sphinx roles in docstrings as cross-references.

``:class:`~package.module.Name``` becomes a link to ``Name`` if the site documents it, and plain code otherwise.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":\w+:`(~?)([^`]+)`")


class Roles(griffe.Extension):
    """Replaces roles by optional autorefs, which never warn about a target that the site does not document."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(lambda match: _link(obj, *match.groups()), obj.docstring.value)


def _link(scope: griffe.Object, tilde: str, target: str) -> str:
    name = target.lstrip(".")
    shown = name.rpartition(".")[2] if tilde else name
    try:
        path = scope.resolve(name)
    except griffe.NameResolutionError:
        path = name
    return f'<autoref identifier="{path}" optional><code>{shown}</code></autoref>'
