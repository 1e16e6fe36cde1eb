"""Protocols towards the outside world, each with a real and an in-memory form."""
