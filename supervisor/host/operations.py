"""File effects that a host's native tool asks for, over the pipe (SUB-1)."""

from __future__ import annotations

import base64
import errno
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from pi_project_memory.actors.ports.tools import FileOps, OperationRefusedError
from pi_project_memory.actors.scopes import AbortedError

Operation = Literal["readFile", "access", "writeFile", "mkdir", "exists", "isDirectory"]


class ToolOperation(Struct, frozen=True, rename="camel"):
    """One effect of the call `call_id`; `data` is base64 of the bytes to write."""

    call_id: str
    operation: Operation
    path: str
    data: str = ""
    write: bool = False


class OperationError(Struct, frozen=True, rename="camel"):
    """Why an effect did not happen: an errno name such as ENOENT, and the text to show."""

    code: str
    message: str


class OperationResult(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an effect gave: bytes as base64, or a yes or no; or its error."""

    data: str | None = None
    answer: bool | None = None
    error: OperationError | None = None


async def perform(ops: FileOps, params: ToolOperation) -> OperationResult:
    """Perform one effect; what it raises becomes an error for the tool to show."""
    try:
        return await _OPERATIONS[params.operation](ops, params)
    except (OperationRefusedError, AbortedError) as refused:
        return OperationResult(error=OperationError("EPERM", str(refused)))
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        where = f" '{error.filename}'" if error.filename else ""
        return OperationResult(error=OperationError(code, f"{code}: {error.strerror or error}{where}"))


async def _read(ops: FileOps, params: ToolOperation) -> OperationResult:
    data = await ops.read_file(Path(params.path))
    return OperationResult(data=base64.b64encode(data).decode("ascii"))


async def _access(ops: FileOps, params: ToolOperation) -> OperationResult:
    await ops.access(Path(params.path), write=params.write)
    return OperationResult()


async def _write(ops: FileOps, params: ToolOperation) -> OperationResult:
    try:
        data = base64.b64decode(params.data, validate=True)
    except ValueError as error:
        raise OSError(errno.EINVAL, f"`data` is no base64: {error}") from None
    await ops.write_file(Path(params.path), data)
    return OperationResult()


async def _mkdir(ops: FileOps, params: ToolOperation) -> OperationResult:
    await ops.mkdir(Path(params.path))
    return OperationResult()


async def _exists(ops: FileOps, params: ToolOperation) -> OperationResult:
    return OperationResult(answer=await ops.exists(Path(params.path)))


async def _is_directory(ops: FileOps, params: ToolOperation) -> OperationResult:
    return OperationResult(answer=await ops.is_directory(Path(params.path)))


_OPERATIONS: Mapping[Operation, Callable[[FileOps, ToolOperation], Awaitable[OperationResult]]] = {
    "readFile": _read,
    "access": _access,
    "writeFile": _write,
    "mkdir": _mkdir,
    "exists": _exists,
    "isDirectory": _is_directory,
}
