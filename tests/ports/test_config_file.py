"""The configuration file: missing, good, broken, unreadable, and what is not a file at all."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import threading
from pathlib import Path

import pytest

from pi_project_memory.actors.core.config import DEFAULT_CONFIG, Config, Fallback
from pi_project_memory.actors.ports import config_file
from pi_project_memory.actors.ports.config_file import (
    LARGEST,
    ConfigError,
    LoadedConfig,
    load_config,
    read_config,
)

REMEDY = "Correct the file, or remove it to use the defaults; then run /memory reload-config."
EXAMPLE = Path(__file__).parents[2] / "config.example.json"


@pytest.mark.req("CFG-1", "CFG-2")
async def test_no_file_means_the_defaults_and_nothing_is_made(tmp_path: Path):
    path = str(tmp_path / "project-memory" / "config.json")
    assert await load_config(path) == LoadedConfig(path, DEFAULT_CONFIG, found=False)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert (await load_config(str(tmp_path / "dangling"))).config == DEFAULT_CONFIG
    assert [entry.name for entry in tmp_path.iterdir()] == ["dangling"]


@pytest.mark.req("CFG-2")
async def test_the_example_file_is_the_defaults(tmp_path: Path):
    path = str(shutil.copy(EXAMPLE, tmp_path / "config.json"))
    assert await load_config(path) == LoadedConfig(path, DEFAULT_CONFIG, found=True)


@pytest.mark.req("CFG-2", "CFG-3")
async def test_fields_are_read_and_bad_ones_are_told(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"enabled": false, "extraction": {"maxTurns": 0}}')
    assert await load_config(str(path)) == LoadedConfig(
        str(path),
        Config(enabled=False),
        found=True,
        fallbacks=(Fallback("extraction.maxTurns", "must be an integer of at least 1"),),
    )


@pytest.mark.req("CFG-1")
async def test_no_variable_changes_a_field(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "config.json"
    path.write_text('{"enabled": false}')
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".pi").mkdir()
    for folder in (tmp_path, tmp_path / ".pi"):
        (folder / "project-memory.json").write_text('{"enabled": true}')
    for name in ("PI_PROJECT_MEMORY_ENABLED", "PROJECT_MEMORY_CONFIG", "ENABLED"):
        monkeypatch.setenv(name, "true")
    assert (await load_config(str(path))).config == Config(enabled=False)


@pytest.mark.req("CFG-2")
async def test_a_link_to_the_file_is_followed(tmp_path: Path):
    (tmp_path / "real.json").write_text('{"enabled": false}')
    (tmp_path / "config.json").symlink_to("real.json")
    assert (await load_config(str(tmp_path / "config.json"))).config == Config(enabled=False)


@pytest.mark.req("CFG-2", "CFG-4")
@pytest.mark.parametrize(
    ("content", "line", "column"),
    [
        (b"", 1, 1),
        (b"\xef\xbb\xbf{}", 1, 1),
        (b'{\n  "enabled": NaN\n}', 2, 14),
        (b'{\n  // off\n  "enabled": false}', 2, 3),
        (b"[" * 100_000, 1, 257),
    ],
)
async def test_what_is_not_json_is_an_error_that_tells_where(
    tmp_path: Path, content: bytes, line: int, column: int
):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        await load_config(str(path))
    error = caught.value
    assert (error.path, error.line, error.column) == (str(path), line, column)
    assert str(error) == f"{path}:{line}:{column}: {error.reason}. {REMEDY}"
    assert error.reason.startswith("it is not valid JSON: ")
    assert path.read_bytes() == content


@pytest.mark.req("CFG-2")
@pytest.mark.parametrize("kind", ["directory", "socket", "device"])
async def test_what_is_no_file_is_an_error(tmp_path: Path, kind: str):
    path = tmp_path / "config.json"
    match kind:
        case "directory":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
        case _:
            path.symlink_to("/dev/null")
    with pytest.raises(ConfigError) as caught:
        await load_config(str(path))
    assert (caught.value.path, caught.value.line) == (str(path), None)
    assert str(caught.value).startswith(f"{path}: it ")
    assert str(caught.value).endswith(REMEDY)


@pytest.mark.req("CFG-2")
def test_a_named_pipe_is_an_error_and_does_not_hang(tmp_path: Path):
    path = tmp_path / "config.json"
    os.mkfifo(path)
    told: list[str] = []

    def read() -> None:
        try:
            read_config(str(path))
        except ConfigError as error:
            told.append(error.reason)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(30)
    assert told == ["it is not a regular file"]


@pytest.mark.req("CFG-2")
async def test_an_unreadable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: str, flags: int) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    path = tmp_path / "config.json"
    with monkeypatch.context() as patched:
        patched.setattr(config_file.os, "open", refuse)
        with pytest.raises(ConfigError, match="it cannot be read: Permission denied"):
            await load_config(str(path))
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="it cannot be read: Not a directory"):
        await load_config(str(tmp_path / "file" / "config.json"))


@pytest.mark.req("CFG-2")
async def test_a_file_of_any_size_is_bounded(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_bytes(b"{}" + b" " * (LARGEST - 2))
    assert (await load_config(str(path))).found
    path.write_bytes(b"{}" + b" " * (LARGEST - 1))
    with pytest.raises(ConfigError, match="larger than"):
        await load_config(str(path))
