"""Training of the dream: data, plan, evaluation and the model card."""
