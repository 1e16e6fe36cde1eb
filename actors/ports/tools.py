"""The six file tools as a host runs them for a background task, and the file effects that come back (SUB-1).

The host executes its own tool; whenever the tool wants to touch a file it asks the `FileOps` given with the
call. Check and effect are one step there, so nothing can change between them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from pi_project_memory.actors.ports.host import JsonObject

TOOL_NAMES = ("read", "find", "grep", "write", "edit", "bash")
"""The tools of a background run, by the names the host's model knows."""


class ToolInvocation(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One call for the host to execute; relative paths start at `cwd`.

    With `structured` the result's form for programs is wanted too.
    """

    call_id: str
    tool: str
    arguments: JsonObject
    cwd: str
    structured: bool = False


class ToolOutcome(Struct, frozen=True, rename="camel"):
    """What the tool gave back: content blocks for the model, details and a JSON value for programs."""

    content: list[JsonObject]
    details: JsonObject | None = None
    is_error: bool = False
    structured_content: Any = None


class OperationRefusedError(Exception):
    """A file effect that is not allowed; the text is for the model and says what to do instead."""


class FileOps(Protocol):
    """The file effects of one tool call; every path is absolute.

    Failures raise OSError with its errno, or OperationRefusedError.
    """

    async def read_file(self, path: Path) -> bytes:
        """Return the whole content of a regular file."""
        ...

    async def access(self, path: Path, *, write: bool = False) -> None:
        """Raise unless the file may be read (and written)."""
        ...

    async def write_file(self, path: Path, data: bytes) -> None:
        """Create the file or replace its content."""
        ...

    async def mkdir(self, path: Path) -> None:
        """Create the directory and its parents; one that exists is fine."""
        ...

    async def exists(self, path: Path) -> bool:
        """Tell whether the path leads to something."""
        ...

    async def is_directory(self, path: Path) -> bool:
        """Tell whether the path is a directory; raises OSError when it does not exist."""
        ...


class ToolHost(Protocol):
    """The part of a host that executes tools."""

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        """Run one tool to its end; cancelling the call aborts it. A tool's failure is an error outcome."""
        ...
