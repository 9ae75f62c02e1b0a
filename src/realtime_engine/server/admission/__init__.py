"""Who gets a session: the waiting line, turns, and limits of each client."""
