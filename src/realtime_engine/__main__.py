"""``python -m realtime_engine`` is ``realtime-engine``."""

from .cli import main

main()
