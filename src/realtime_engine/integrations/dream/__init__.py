"""The dream: a neural renderer with learned dynamics of one small level; all rows run in one forward pass.

``demo`` holds the demo, ``model`` the stage model and ``train`` the training command. Each is imported on first use;
``demo`` does not import torch.
"""
