"""What a run without a server reads and writes: nothing here is needed by a demo, and nothing knows a model."""

from .output import output_path
from .stats import STATS_SCHEMA, STATS_VERSION, read_stats, write_stats

__all__ = ["STATS_SCHEMA", "STATS_VERSION", "output_path", "read_stats", "write_stats"]
