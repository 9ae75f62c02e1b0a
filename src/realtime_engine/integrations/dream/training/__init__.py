"""Training of the dream: data, plan, trainer, evaluation and model card."""
