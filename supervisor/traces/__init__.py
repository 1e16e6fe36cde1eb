"""Reading a session's log again: which turn, what happened in it, and how it is shown (OBS-2)."""
