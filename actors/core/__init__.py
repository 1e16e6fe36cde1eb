"""Pure functions and tables: no I/O, no clock, no await."""
