"""The maze and its learned counterpart side by side, with the same controls.

``demo`` is the declaration, ``model`` the stage model, which is imported when the engine is built.
"""
