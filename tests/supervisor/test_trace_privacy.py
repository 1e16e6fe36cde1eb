"""What a log may know: whole sessions with marked texts leave none of them in it (OBS-1)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pi_project_memory.actors.ports.store import DiskStore
from pi_project_memory.actors.ports.trace import Private, RecordedTrace, fault
from pi_project_memory.supervisor.host.scenario import ProviderError, Reply, Scenario, ToolUse, load_scenario
from pi_project_memory.supervisor.log import TEXT_UNITS, VARIABLE, SessionLog
from trace_kit import play_into

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "sessions"
SESSIONS = sorted(FOLDER.glob("*.yaml"))


def _marked_arguments(value: Any) -> Any:
    """Mark every text in a tool's arguments that is no path and is not looked for in a file."""
    match value:
        case dict():
            kept = {"path", "oldText"}
            return {key: old if key in kept else _marked_arguments(old) for key, old in value.items()}
        case list():
            return [_marked_arguments(one) for one in value]
        case str():
            return f"{value} MARK-argument"
    return value


def _marked_call(use: ToolUse) -> ToolUse:
    return msgspec.structs.replace(use, arguments=_marked_arguments(use.arguments))


def _marked_reply(reply: Reply) -> Reply:
    return msgspec.structs.replace(
        reply,
        text=None if reply.text is None else f"{reply.text} MARK-answer",
        choose=None if reply.choose is None else [*reply.choose, "MARK-choice.md"],
        calls=None if reply.calls is None else [_marked_call(use) for use in reply.calls],
        error=None
        if reply.error is None
        else ProviderError(f"{reply.error.message}, the key sk-MARK-credential is wrong", reply.error.status),
    )


def _marked_step(step: dict[str, Any]) -> dict[str, Any]:
    marked = dict(step)
    if "user" in step:
        marked["user"] = f"{step['user']} MARK-prompt"
        actions = step.get("answer", [{"say": "Done."}])
        marked["answer"] = [_marked_action(action) for action in actions]
    if "edit" in step:
        marked["edit"] = {name: text and f"{text}\nMARK-edit\n" for name, text in step["edit"].items()}
    return marked


def _marked_action(action: dict[str, Any]) -> dict[str, Any]:
    told = {key: f"{action[key]} MARK-said" for key in ("say", "queued") if key in action}
    call = action.get("call")
    if call is not None:
        told["call"] = {**call, "arguments": _marked_arguments(call["arguments"])}
    return {**action, **told}


def marked(scenario: Scenario) -> Scenario:
    """Return a scenario in which every text that is anybody's own carries a mark."""
    memory = {
        name: text.replace("description: ", "description: MARK-description ") + "MARK-memory\n"
        for name, text in scenario.memory.items()
    }
    return msgspec.structs.replace(
        scenario,
        memory=memory,
        models={
            label: [_marked_reply(reply) for reply in replies] for label, replies in scenario.models.items()
        },
        steps=[_marked_step(step) for step in scenario.steps],
    )


TROUBLE = Scenario(
    name="Whatever can go wrong",
    memory={"MEMORY.md": "- [a](a.md)\n", "a.md": "---\nname: a\ndescription: A\n---\nbody\n"},
    models={
        "sim/selector": [
            Reply(text="no JSON"),
            Reply(error=ProviderError("bad request", 400)),
            Reply(error=ProviderError("rate limit", 429)),
            Reply(choose=["a.md"]),
            Reply(choose=["a.md"], delay=30),
        ],
        "sim/extractor": [
            Reply(
                calls=[
                    ToolUse("bash", {"command": "curl http://example.invalid"}),
                    ToolUse("bash", {"command": "ls nowhere"}),
                    ToolUse("write", {"path": "{{memory}}/a.md", "content": "over it"}),
                    ToolUse("read", {"path": "{{memory}}/missing.md"}),
                    ToolUse("no such tool MARK-tool", {"text": "what"}),
                ]
            ),
            Reply(calls=[ToolUse("write", {"path": "{{memory}}/b.md", "content": "new"})]),
            Reply(error=ProviderError("overloaded", 529)),
        ],
        "sim/dream": [
            Reply(calls=[ToolUse("write", {"path": "{{memory}}/d.md", "content": "dreamt"})]),
            Reply(text="merged"),
        ],
    },
    steps=[
        {"user": "The first thing to remember"},
        {"wait": 5},
        {"edit": {"MEMORY.md": "- [a](a.md) changed\n"}},
        {"user": "And the second one", "answer": [{"queued": "one more thing"}, {"say": "yes"}]},
        {"wait": 5},
        {
            "user": "Look at this file",
            "answer": [
                {"call": {"tool": "bash", "arguments": {"command": "echo MEMORY.md"}}},
                {"call": {"tool": "write", "arguments": {"path": "../memory/c.md", "content": "bad topic"}}},
            ],
        },
        {"config": "{ MARK-config"},
        {"command": "reload-config"},
        {"command": "MARK-command"},
        {"command": "extract"},
        {"command": "dream"},
        {"command": "dream"},
        {"compact": 1},
        {"user": "Stop right here please", "aborted": True},
        {"back_to": 1},
        {"user": "Another branch of it"},
    ],
)


async def played(
    scenario: Scenario, root: Path, monkeypatch: pytest.MonkeyPatch, *, texts: bool = False
) -> bytes:
    """Play a session and return its log."""
    log = SessionLog(texts=texts)
    path = log.locate(root / "logs", "s1")
    log.open()
    async with play_into(log, scenario, root / "session", monkeypatch) as session:
        await session.play()
    log.close()
    return path.read_bytes()


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("file", SESSIONS, ids=lambda path: path.stem)
async def test_no_text_of_a_session_reaches_its_log(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = await played(marked(load_scenario(file)), tmp_path, monkeypatch)
    assert b"MARK" not in log
    assert b'"model_answered"' in log


@pytest.mark.req("OBS-1")
async def test_no_text_reaches_the_log_when_everything_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = await played(marked(TROUBLE), tmp_path, monkeypatch)
    assert b"MARK" not in log
    for name in ("tool_called", "notice", "topic", "published", "outside_change", "dream_considered"):
        assert f'"event":"{name}"'.encode() in log
    assert b'"actor":"dream","path":"d.md","change":"created"' in log


@pytest.mark.req("OBS-1")
async def test_the_same_session_leaves_every_kind_of_text_at_the_level_debug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = await played(marked(TROUBLE), tmp_path, monkeypatch, texts=True)
    kinds = ("prompt", "memory", "description", "answer", "argument", "choice.md", "credential", "said")
    assert [kind for kind in kinds if f"MARK-{kind}".encode() not in log] == []
    plain = [{**json.loads(line), "texts": None} for line in log.splitlines()]
    assert "MARK" not in json.dumps(plain)


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("method", ["read_index", "scan", "snapshot", "read_topic"])
async def test_no_text_reaches_the_log_when_an_actor_fails_on_it(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def fail(*_: object) -> None:
        raise RuntimeError("MARK-error")

    monkeypatch.setattr(DiskStore, method, fail)
    log = await played(marked(load_scenario(FOLDER / "first-day.yaml")), tmp_path, monkeypatch)
    assert b"MARK" not in log
    failed = [json.loads(line) for line in log.splitlines() if b'"actor_failed"' in line]
    assert {(one["error"], one["where"].partition(":")[0]) for one in failed} == {
        ("RuntimeError", Path(__file__).name)
    }


def _level(log: SessionLog, path: Path) -> dict[str, Any]:
    log.locate(path, "s1")
    log.event("told", actor="index", words=Private("a secret"), message=Private([{"text": "a secret"}]))
    log.close()
    (file,) = path.iterdir()
    told: dict[str, Any] = json.loads(file.read_bytes())
    return told


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize("value", [None, "", "info", "DEBUG", "1", "debug "])
def test_only_one_word_in_the_environment_keeps_texts(value: str | None, tmp_path: Path):
    environment = {} if value is None else {VARIABLE: value}
    told = _level(SessionLog.of(environment), tmp_path)
    assert "secret" not in json.dumps(told)
    assert told["actor"] == "index"


@pytest.mark.req("OBS-1")
def test_the_level_debug_keeps_texts_apart_from_the_rest(tmp_path: Path):
    told = _level(SessionLog.of({VARIABLE: "debug"}), tmp_path)
    assert told["texts"] == {"words": "a secret", "message": '[{"text": "a secret"}]'}
    assert told["actor"] == "index"


@pytest.mark.req("OBS-1", "OBS-3")
def test_a_text_is_kept_up_to_a_bound(tmp_path: Path):
    log = SessionLog(texts=True)
    path = log.locate(tmp_path, "s1")
    log.event("told", words=Private("😀" * TEXT_UNITS))
    log.close()
    assert json.loads(path.read_bytes())["texts"]["words"] == "😀" * (TEXT_UNITS // 2)


@pytest.mark.req("OBS-1")
def test_a_value_is_put_into_words_for_nobody():
    class Costly:
        def __repr__(self) -> str:
            raise AssertionError("nobody asked for it")

    log = SessionLog()
    log.event("told", value=Private([Costly()]))
    log.close()


@pytest.mark.req("OBS-1")
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("a secret"), "ValueError"),
        (FileNotFoundError(2, "No such file", "/secret"), "FileNotFoundError ENOENT"),
        (OSError("a secret"), "OSError"),
        (OSError(9999, "a secret"), "OSError 9999"),
    ],
)
def test_an_error_is_told_by_its_kind(error: Exception, kind: str):
    trace = RecordedTrace()
    trace.event("failed", **fault(error))
    assert trace.named("failed") == [{"error": kind, "words": str(error)}]
    assert fault(error)["words"] == Private(str(error))


def _serve(folder: Path, environment: dict[str, str]) -> bytes:
    """Run the real service with a configuration that cannot be read, and return its log."""
    config = folder / "agent" / "project-memory" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text("{")
    params = {
        "protocolVersion": 1,
        "host": {"name": "test", "version": "1"},
        "mode": "print",
        "agentDir": str(folder / "agent"),
        "cwd": str(folder),
        "trusted": True,
        "session": {"id": "s1", "directory": "", "usesDefaultDirectory": True},
        "history": {"handle": "h", "length": 0},
    }
    frames: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": params},
        {"id": 2, "method": "command", "params": {"arguments": "status", "context": _context()}},
        {"id": 3, "method": "shutdown", "params": {"reason": "quit"}},
    ]
    subprocess.run(
        [sys.executable, "-m", "pi_project_memory.supervisor.main", "serve"],
        input=b"".join(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n" for frame in frames),
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
        check=True,
    )
    (log,) = (folder / "agent" / "project-memory" / "logs").iterdir()
    return log.read_bytes()


def _context() -> dict[str, Any]:
    return {"history": {"handle": "h", "length": 0}, "trusted": True, "thinkingLevel": "off"}


@pytest.mark.req("OBS-1", "OBS-3")
@pytest.mark.real_time
@pytest.mark.parametrize(("level", "count"), [("", 0), ("debug", 1)])
def test_the_service_takes_its_level_from_the_environment(level: str, count: int, tmp_path: Path):
    log = _serve(tmp_path, {VARIABLE: level})
    assert b'"event":"notice"' in log
    assert log.count(b'"texts"') == count
