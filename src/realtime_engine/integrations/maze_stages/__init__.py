"""The maze as a graph of stages with the stage times of a video model; shows pipelining and control freshness.

``demo`` holds the demo, ``pipeline`` the stages and their graph. Both are imported on first use.
"""
