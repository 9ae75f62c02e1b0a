from __future__ import annotations

import json

import pytest

from realtime_engine.infra.extras import MissingDependencyError, require


def test_what_is_installed_is_imported() -> None:
    assert require("json", "serve", "read") is json


def test_what_is_missing_says_what_to_install() -> None:
    with pytest.raises(MissingDependencyError, match=r"cannot fly without the package 'no_such'") as caught:
        require("no_such.wings", "serve", "fly")
    assert "pip install 'realtime-engine[serve]'" in str(caught.value)
    assert isinstance(caught.value, ImportError)
