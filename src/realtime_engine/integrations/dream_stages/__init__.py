"""The dream as a graph of concurrent stages: encode, denoise and decode, each with its own state.

``demo`` holds the demo, ``pipeline`` the stages and their graph. ``pipeline`` imports torch and is imported on first
use.
"""
