"""The file effects of a native tool as they come over the pipe."""

from __future__ import annotations

import base64
import errno
from pathlib import Path
from typing import Any

import pytest

from pi_project_memory.actors.subagent.guarded_files import GuardedFiles
from pi_project_memory.supervisor.host.operations import OperationResult, ToolOperation, perform
from subagent_kit import Yard, learn, names


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path)


async def ask(yard: Yard, operation: Any, path: Path | str, **fields: Any) -> OperationResult:
    return await perform(GuardedFiles(yard.files()), ToolOperation("call", operation, str(path), **fields))


def error_of(result: OperationResult) -> tuple[str, str]:
    assert result.error is not None
    return result.error.code, result.error.message


def base(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.req("SUB-1", "HOST-6")
@pytest.mark.parametrize(
    "data", [b"", b"plain\n", "→ — 日本 😀\n".encode(), bytes(range(256)), b"\xff\xfe\n"], ids=repr
)
async def test_bytes_cross_over_as_they_are_in_both_directions(yard: Yard, data: bytes):
    path = yard.memory / "new.md"
    assert await ask(yard, "writeFile", path, data=base(data)) == OperationResult()
    assert path.read_bytes() == data
    assert await ask(yard, "readFile", path) == OperationResult(data=base(data))


@pytest.mark.req("SUB-1")
async def test_questions_are_answered(yard: Yard):
    assert await ask(yard, "exists", yard.memory / "a.md") == OperationResult(answer=True)
    assert await ask(yard, "exists", yard.memory / "gone.md") == OperationResult(answer=False)
    assert await ask(yard, "isDirectory", yard.memory) == OperationResult(answer=True)
    assert await ask(yard, "isDirectory", yard.memory / "a.md") == OperationResult(answer=False)
    assert await ask(yard, "access", yard.project / "src" / "a.py") == OperationResult()
    assert await ask(yard, "mkdir", yard.memory / "deep") == OperationResult()
    assert (yard.memory / "deep").is_dir()


@pytest.mark.req("SUB-2", "SUB-3")
@pytest.mark.parametrize("operation", ["readFile", "access", "writeFile", "exists", "isDirectory"])
@pytest.mark.parametrize(
    "path", ["outside/secret.md", "memory/../outside/secret.md", "agent/auth.json", "a\0b.md"]
)
async def test_what_is_refused_is_an_error_with_what_to_do(yard: Yard, operation: str, path: str):
    code, message = error_of(await ask(yard, operation, f"{yard.root}/{path}", data=base(b"x")))
    assert code == "EPERM"
    assert message.startswith("Refused: ")


@pytest.mark.req("SUB-4")
async def test_an_edit_asks_for_its_right_to_write_ahead(yard: Yard):
    path = yard.memory / "a.md"
    assert error_of(await ask(yard, "access", path, write=True))[0] == "EPERM"
    files = yard.files()
    await learn(files, path)
    assert (
        await perform(GuardedFiles(files), ToolOperation("c", "access", str(path), write=True))
        == OperationResult()
    )


@pytest.mark.req("SUB-1")
async def test_the_systems_errors_keep_their_names(yard: Yard):
    code, message = error_of(await ask(yard, "readFile", yard.project / "gone.py"))
    assert code == "ENOENT"
    assert message == f"ENOENT: No such file or directory '{yard.project}/gone.py'"
    assert error_of(await ask(yard, "readFile", yard.project / "src"))[0] == "EISDIR"


@pytest.mark.req("SUB-1")
@pytest.mark.parametrize("error", [OSError("no number"), OSError(99_999, "unknown")], ids=str)
async def test_an_error_without_a_name_is_one_all_the_same(error: OSError):
    class Broken:
        async def read_file(self, path: Path) -> bytes:
            raise error

    operations: Any = Broken()
    code, message = error_of(await perform(operations, ToolOperation("c", "readFile", "/x")))
    assert code == "EIO"
    assert code in errno.errorcode.values()
    assert message


@pytest.mark.req("SUB-1", "HOST-6")
@pytest.mark.parametrize("data", ["%%%", "QUJD\n", "QUI", "日本"])
async def test_what_is_no_base64_is_not_written_as_something_else(yard: Yard, data: str):
    code, _ = error_of(await ask(yard, "writeFile", yard.memory / "new.md", data=data))
    assert code == "EINVAL"
    assert names(yard.memory) == ["MEMORY.md", "a.md"]


@pytest.mark.req("SUB-5", "LIFE-2")
@pytest.mark.parametrize("operation", ["readFile", "access", "writeFile", "mkdir", "exists", "isDirectory"])
async def test_a_run_without_rights_gets_an_error_and_nothing_happens(yard: Yard, operation: str):
    yard.lost = "a new generation began"
    code, message = error_of(await ask(yard, operation, yard.memory / "new.md", data=base(b"x")))
    assert (code, message) == ("EPERM", "a new generation began")
    assert names(yard.memory) == ["MEMORY.md", "a.md"]
