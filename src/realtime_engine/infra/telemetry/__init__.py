"""Latency records, traces, spans and process statistics."""
