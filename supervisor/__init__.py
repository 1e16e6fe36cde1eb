"""Who runs the actors, and for whom."""
