"""What belongs to one session."""
