"""A first-person world in NumPy: the default demo, and the example of a model with all three lanes.

``demo`` holds what the server asks for, ``model`` the stage model; neither is imported before it is needed.
"""
