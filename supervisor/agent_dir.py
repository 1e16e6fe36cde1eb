"""Where Pi keeps its files, found as Pi finds it (HOST-10)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

VARIABLE = "PI_CODING_AGENT_DIR"


def agent_dir(environ: Mapping[str, str], home: Path) -> Path:
    """Return the agent directory: the variable with `~` and `file://` expanded as Pi does, else the default."""
    given = environ.get(VARIABLE, "")
    if not given:
        return home / ".pi" / "agent"
    if given == "~":
        return home
    if given.startswith("~/"):
        return home / given[2:].lstrip("/")
    if given.startswith("file://"):
        given = unquote(urlsplit(given).path)
    return Path(given).absolute()
