from __future__ import annotations

import json
import subprocess
import sys

import pytest

from realtime_engine.infra import acceleration
from realtime_engine.infra.acceleration import (
    Compiled,
    CudaGraphDispatch,
    FramePrefetcher,
    StreamRunner,
    TorchMissingError,
    overlap_runner,
)

from ...extras import skip_without


@pytest.mark.parametrize(
    ("helper", "make"),
    [
        ("Compiled", lambda: Compiled(abs)),
        ("CudaGraphDispatch", lambda: CudaGraphDispatch(abs)),
        ("FramePrefetcher", FramePrefetcher),
        ("StreamRunner", StreamRunner),
        ("a stream runner", lambda: overlap_runner("stream")),
    ],
)
def test_without_torch_the_error_names_the_extra(no_torch, helper, make):
    with pytest.raises(TorchMissingError, match=rf"^{helper} needs torch.*realtime-engine\[torch\]") as raised:
        make()
    assert isinstance(raised.value, ImportError)


def test_importing_any_module_of_infra_imports_no_torch():
    skip_without("serve")
    program = (
        "import importlib, json, pkgutil, sys\n"
        "import realtime_engine.infra as infra\n"
        "names = [module.name for module in pkgutil.walk_packages(infra.__path__, 'realtime_engine.infra.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "print(json.dumps([len(names), sorted(name for name in sys.modules if name.split('.')[0] == 'torch')]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported, of_torch = json.loads(done.stdout)
    assert imported > 30 and of_torch == []


def test_all_public_names_are_there_and_sorted():
    assert acceleration.__all__ == sorted(set(acceleration.__all__))
    for name in acceleration.__all__:
        assert getattr(acceleration, name) is not None
