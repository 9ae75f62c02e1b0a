"""Models that run on the engine, one folder each; no folder knows another."""
