"""The maze on a graph of stages, with stage times like those of a video model: shows pipelining and control freshness.

``demo`` holds what the server asks for, ``stages`` the model; neither is imported before it is needed.
"""
