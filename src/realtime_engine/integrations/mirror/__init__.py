"""A mirror that applies effects to the client's video: the example of a demo with video input.

``demo`` is the declaration, ``model`` the stage model, which is imported when the engine is built.
"""
