"""From chunks to eyes, from hands to conditioning: each module tames one outside technology or one problem."""
