"""The background loop, its six restricted tools and their policies."""
