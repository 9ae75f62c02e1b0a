"""The maze and the dream of it side by side, led by the same hands.

``demo`` holds what the server asks for, ``model`` the stage model; the latter is imported only when it is needed.
"""
