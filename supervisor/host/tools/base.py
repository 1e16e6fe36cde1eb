"""What the six tools share: results, errors, the context of a call and the file effects behind it (SUB-1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pi_project_memory.supervisor.host.tools.locks import FileLocks


class ToolError(Exception):
    """A tool call that failed; its message is what the model reads."""


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of a result that the model reads as text."""

    text: str

    def to_wire(self) -> dict[str, str]:
        """Return the block as it stands in a session file."""
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImageBlock:
    """A picture in a result; `data` is base64."""

    data: str
    mime_type: str

    def to_wire(self) -> dict[str, str]:
        """Return the block as it stands in a session file."""
        return {"type": "image", "data": self.data, "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gives back: blocks for the model, `details` for programs (None when there are none)."""

    content: tuple[TextBlock | ImageBlock, ...]
    details: Mapping[str, Any] | None = None
    is_error: bool = False

    @classmethod
    def of_text(
        cls, text: str, details: Mapping[str, Any] | None = None, *, is_error: bool = False
    ) -> ToolResult:
        """Return a result of one text block; an empty `details` counts as none."""
        return cls((TextBlock(text),), details or None, is_error)

    @property
    def text(self) -> str:
        """The text blocks, joined by line breaks."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))

    def to_wire(self) -> dict[str, Any]:
        """Return the result as JSON, with the field names of a session file."""
        return {
            "content": [block.to_wire() for block in self.content],
            "details": None if self.details is None else dict(self.details),
            "isError": self.is_error,
        }


class FileOps(Protocol):
    """The file effects of the tools, one worker hop each.

    Every path is absolute and without `.` or `..`. Failures raise OSError with its errno, or ToolError when
    the effect is refused. A guard implements this protocol to check and act in one step.
    """

    async def read_file(self, path: Path) -> bytes:
        """Return the whole content of a regular file."""

    async def access(self, path: Path, *, write: bool = False) -> None:
        """Raise OSError unless the file can be read (and written)."""

    async def write_file(self, path: Path, data: bytes) -> None:
        """Create the file or replace its content."""

    async def mkdir(self, path: Path) -> None:
        """Create the directory and its parents; one that exists is fine."""

    async def exists(self, path: Path) -> bool:
        """Tell whether the path leads to something."""

    async def is_directory(self, path: Path) -> bool:
        """Tell whether the path is a directory; raise OSError when it does not exist."""

    async def glob(self, pattern: str, root: Path, limit: int) -> list[str]:
        """Return at most `limit` paths under `root` that match, relative to it; directories end in `/`."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where and through what a call acts.

    `cwd` is the absolute directory that relative paths start from, `scratch` an existing private directory
    for the logs of long command outputs. Calls that share `locks` change one file after the other. `env` is
    the environment of commands, None for that of this process.
    """

    cwd: Path
    scratch: Path
    ops: FileOps
    locks: FileLocks = field(default_factory=FileLocks)
    env: Mapping[str, str] | None = None
