"""Python forms of Pi's six file tools, for hosts that have no Pi beside them (HOST-2)."""

from pi_project_memory.supervisor.host.tools.base import (
    FileOps,
    ImageBlock,
    TextBlock,
    ToolContext,
    ToolError,
    ToolResult,
)
from pi_project_memory.supervisor.host.tools.fileops import RealFileOps
from pi_project_memory.supervisor.host.tools.locks import FileLocks
from pi_project_memory.supervisor.host.tools.registry import TOOLS, call_tool
from pi_project_memory.supervisor.host.tools.schemas import DECLARATIONS, ToolDeclaration

__all__ = [
    "DECLARATIONS",
    "TOOLS",
    "FileLocks",
    "FileOps",
    "ImageBlock",
    "RealFileOps",
    "TextBlock",
    "ToolContext",
    "ToolDeclaration",
    "ToolError",
    "ToolResult",
    "call_tool",
]
