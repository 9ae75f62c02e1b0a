"""The engine: truths that hold with no GPU, no browser and no model. Standard library and NumPy only."""
