"""A level that a neural network has learned: a neural renderer with learned dynamics, all rows in one forward.

``demo`` holds what the server asks for, ``model`` the stage model, ``train`` the training; none is imported before it
is needed, and only then torch.
"""
