"""A mirror that redraws whoever looks into it: the example of a demo that takes video.

``demo`` holds what the server asks for, ``model`` the stage model; neither is imported before it is needed.
"""
