"""The command line. It joins demos, server and logging."""

from __future__ import annotations

import sys

from ..infra.signals import exit_code, raise_on_signals

_MISSING = 2


def main() -> None:
    """Entry point of ``realtime-engine``."""
    try:
        raise_on_signals()
        from .app import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "realtime_engine":
            raise
        sys.stderr.write(f"realtime-engine needs {error.name}: pip install 'realtime-engine[serve]'\n")
        sys.exit(_MISSING)
    except KeyboardInterrupt as error:
        sys.exit(exit_code(error))
    sys.exit(run(sys.argv[1:]))
