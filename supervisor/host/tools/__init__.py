"""Python forms of Pi's six file tools, for hosts that have no Pi beside them (HOST-2).

read, write and edit agree with Pi's to the byte, find, grep and bash in results, errors and truncation; a
suite that runs both holds them to it. Known differences: a picture that would have to be scaled or converted
is left out with a note; only regular files are read and written; find knows `.gitignore` and `.ignore` files,
counts characters where fd counts bytes, and words its limit as Pi does for a listing of the host's own; grep
sorts by file and keeps lines that hold U+2028 or U+2029; bash merges both outputs in one pipe and keeps its
logs in the scratch directory.
"""

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
