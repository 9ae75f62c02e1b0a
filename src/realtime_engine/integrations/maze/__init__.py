"""The maze: a first-person world in NumPy. The default demo, and the example of a model with all three lanes.

``demo`` holds the demo, ``model`` the stage model. Both are imported on first use.
"""
