"""The streaming pipeline scheduler: a graph of long-lived stages through which ordered chunks flow."""
