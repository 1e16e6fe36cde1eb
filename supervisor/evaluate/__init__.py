"""Measuring a model on prepared cases: a fixture, a way to a model, the numbers and the report."""
