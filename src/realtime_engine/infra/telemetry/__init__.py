"""Latency records, traces and process statistics."""
