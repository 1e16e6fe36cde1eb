"""The embedding API: any async program as host, off without a trace, models, bursts, and what breaks meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from actors_kit import Outcome, turns
from pi_project_memory.actors.ports.codemode import (
    CodemodeLoadout,
    CodemodeWanted,
    Script,
    ScriptOutcome,
    ScriptTools,
)
from pi_project_memory.actors.ports.git import NoWorktree
from pi_project_memory.actors.ports.host import (
    HiddenMessage,
    HistoryHead,
    HostError,
    JsonObject,
    ModelAnswer,
    ModelInfo,
    ModelQuery,
    ModelRequest,
    NoticeLevel,
    ParentSnapshot,
    ResolvedModel,
)
from pi_project_memory.actors.ports.store import DiskStore, MemoryStore
from pi_project_memory.actors.ports.tools import FileOps, ToolInvocation, ToolOutcome
from pi_project_memory.actors.ports.trace import RecordedTrace
from pi_project_memory.supervisor.host.protocol import (
    PROTOCOL_VERSION,
    AgentSettled,
    BeforeAgentStart,
    BeforeCompact,
    Command,
    Complete,
    HistoryChanged,
    HostName,
    Initialize,
    RunContext,
    SessionIdentity,
    Shutdown,
    ToolResult,
    UserMessage,
)
from pi_project_memory.supervisor.host.scenario import Compaction, Reply
from pi_project_memory.supervisor.host.simulated import ScriptedModels
from pi_project_memory.supervisor.log import SessionLog, _RotatingFile
from pi_project_memory.supervisor.service import open_service
from pi_project_memory.supervisor.setup import Environment
from service_kit import HANGS, NOTHING, SELECTOR, Stage, keeping, staged
from subagent_kit import names

# A host of its own.


class Notebook:
    """The smallest program that embeds the memory: a list of entries, one model, and a way to write files."""

    def __init__(self, memory: Path) -> None:
        self.memory = memory
        self.entries: list[JsonObject] = []
        self.told: list[str] = []
        self.asked: list[ModelRequest] = []

    @property
    def head(self) -> HistoryHead:
        return HistoryHead("the only branch", len(self.entries))

    def say(self, role: str, text: str) -> None:
        content = [{"type": "text", "text": text}]
        entry = {
            "id": str(len(self.entries)),
            "type": "message",
            "message": {"role": role, "content": content},
        }
        self.entries.append(entry)

    async def resolve_model(self, query: ModelQuery) -> ResolvedModel:
        return ResolvedModel("ok", ModelInfo("home", "only", "custom"))

    async def stream_model(self, request: ModelRequest) -> ModelAnswer:
        """Choose a topic for the selector, write one for the extractor, then have nothing more to do."""
        self.asked.append(request)
        arguments: JsonObject = {"path": str(self.memory / "new.md"), "content": "kept\n"}
        name = "write"
        if request.tools and request.tools[0]["name"] == "select_memories":
            name, arguments = "select_memories", {"selected_memories": ["old.md"]}
        call = {"type": "toolCall", "id": "1", "name": name, "arguments": arguments}
        done = request.messages[-1]["role"] == "toolResult"
        content = [{"type": "text", "text": "Done."}] if done else [call]
        return ModelAnswer({"role": "assistant", "content": content, "stopReason": "stop"})

    async def read_history(
        self, handle: str, start: int, stop: int | None, types: Sequence[str] | None = None
    ) -> Sequence[JsonObject]:
        return self.entries[start:stop]

    async def append_entry(self, custom_type: str, data: JsonObject) -> None:
        self.entries.append({"id": "", "type": "custom", "customType": custom_type, "data": data})

    async def send_message(self, message: HiddenMessage) -> None:
        self.told.append(message.content)

    async def capture_parent(self) -> ParentSnapshot:
        raise HostError("no request is kept here")

    async def release_parent(self, handle: str) -> None:
        raise AssertionError("nothing was captured")

    async def execute_tool(self, call: ToolInvocation, ops: FileOps) -> ToolOutcome:
        await ops.write_file(Path(call.arguments["path"]), call.arguments["content"].encode())
        return ToolOutcome([{"type": "text", "text": "written"}])

    async def codemode_loadout(self, wanted: CodemodeWanted) -> CodemodeLoadout:
        raise HostError("no scripts here")

    async def run_script(self, script: Script, call: ScriptTools) -> ScriptOutcome:
        raise HostError("no scripts here")

    async def notify(self, level: NoticeLevel, text: str) -> None:
        self.told.append(text)

    async def show_status(self, text: str | None) -> None:
        raise HostError("no status line here")


def handshake(root: Path, host: Notebook) -> Initialize:
    return Initialize(
        protocol_version=PROTOCOL_VERSION,
        host=HostName("notebook", "1"),
        mode="embedded",
        agent_dir=str(root / "agent"),
        cwd=str(root),
        trusted=True,
        session=SessionIdentity("n1", "", uses_default_directory=True),
        history=host.head,
    )


@pytest.mark.req("HOST-1", "HOST-2")
async def test_any_async_program_can_embed_the_memory(tmp_path: Path):
    """It gets the section and a recall, and finds on disk what the conversation was worth."""
    memory = tmp_path / "agent" / "project-memory" / "projects"
    memory = memory / "".join(c if c.isalnum() else "-" for c in str(tmp_path)) / "memory"
    memory.mkdir(parents=True)
    (memory / "old.md").write_text("---\ndescription: how we deploy\n---\nmake ship\n")
    host = Notebook(memory)
    surroundings = Environment.real(RecordedTrace())
    async with open_service(host, surroundings) as service:
        await service.initialize(handshake(tmp_path, host))
        before = RunContext(host.head, trusted=True)
        answer = await service.before_agent_start(
            BeforeAgentStart(before, "user", "How do we deploy this service?")
        )
        assert answer.section is not None
        assert str(memory) in answer.section.text
        assert answer.message is not None
        assert "make ship" in answer.message.content
        host.say("user", "How do we deploy this service?")
        host.say("assistant", "With make ship.")
        service.agent_settled(AgentSettled(RunContext(host.head, trusted=True), aborted=False))
        await service.shutdown(Shutdown("quit"))
    assert (memory / "new.md").read_text() == "kept\n"
    assert stat.S_IMODE((memory / "new.md").stat().st_mode) == 0o600
    assert any("new.md" in text for text in host.told)
    assert host.entries[-1]["customType"] == "project-memory-cursor"


@pytest.mark.req("HOST-1", "LIFE-5")
async def test_a_host_that_fails_every_call_is_no_worse_off(tmp_path: Path):
    class Broken(Notebook):
        def __getattribute__(self, name: str) -> Any:
            if name in {"memory", "entries", "told", "asked", "head", "say"} or name.startswith("__"):
                return super().__getattribute__(name)
            return self.__class__.fail

        @staticmethod
        async def fail(*_: object, **__: object) -> None:
            raise HostError("nothing works here")

    host = Broken(tmp_path)
    async with open_service(host, Environment.real(RecordedTrace())) as service:
        await service.initialize(handshake(tmp_path, host))
        context = RunContext(HistoryHead("h", 2), trusted=True)
        answer = await service.before_agent_start(BeforeAgentStart(context, "user", "How do we deploy?"))
        assert answer.section is not None
        service.agent_settled(AgentSettled(context, aborted=False))
        await service.before_compact(BeforeCompact(context, "manual"))
        status = await service.command(Command("status", context))
        assert "Selector model: none: nothing works here" in status.text
        await service.shutdown(Shutdown("quit"))


# Off: nothing is created, nothing is resolved.


class CountingGit:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def locate(self, directory: str) -> NoWorktree:
        self.asked.append(directory)
        return NoWorktree("no git here")


@pytest.mark.req("PATH-6", "CFG-1", "C32")
@pytest.mark.parametrize("off", [{"config": {"enabled": False}}, {"trusted": False}, {"config": "{"}])
async def test_off_it_creates_and_resolves_nothing_whatever_happens(tmp_path: Path, off: Mapping[str, Any]):
    git, stores = CountingGit(), []

    def store(directory: Path) -> MemoryStore:
        stores.append(directory)
        return DiskStore(directory)

    async with staged(tmp_path, git=git, store=store, **off) as stage:
        before = names(tmp_path)
        for number in range(3):
            await stage.say(f"please remember the number {number}")
        await stage.session.step(Compaction(compact=1))
        for command in ("status", "list", "extract", "dream", "", "nonsense"):
            await stage.command(command)
        stage.service.complete(Complete("st"))
        await anyio.sleep(1_000)
        assert await stage.shut_down() == 0
    assert names(tmp_path) == before
    assert (git.asked, stores, stage.host.models.exchanges) == ([], [], [])
    assert (stage.ours(), stage.host.history_reads) == ([], [])


# Before the set-up is done.


class SlowGit(CountingGit):
    async def locate(self, directory: str) -> NoWorktree:
        await anyio.sleep(30)
        return await super().locate(directory)


@pytest.mark.req("EXT-1", "LIFE-6")
async def test_turns_that_settle_during_the_start_are_counted(tmp_path: Path):
    config = {"extraction": {"everyNTurns": 3, "idleFlushSeconds": 0}}
    async with staged(tmp_path, config=config, git=SlowGit()) as stage:
        for number in range(3):
            stage.hear(f"please remember the number {number}")
            stage.settle()
        stage.settle(aborted=True)
        await anyio.sleep(40)
        (text,) = stage.texts()
        assert all(f"number {number}" in text for number in range(3))


@pytest.mark.req("HOST-8", "LIFE-5")
async def test_a_start_that_takes_long_holds_no_event_up(tmp_path: Path):
    async with staged(tmp_path, git=SlowGit()) as stage:
        started = anyio.current_time()
        answer = await stage.prompt()
        assert anyio.current_time() - started == 2
        assert (answer.section, answer.pending) == (None, True)
        await stage.service.before_compact(BeforeCompact(stage.context, "manual"))
        assert anyio.current_time() - started == 2
        shown = await stage.command("list")
        assert anyio.current_time() - started == 7
        assert shown.text == "/memory list is not available: memory is still starting; try again in a moment"


@pytest.mark.req("HOST-5", "EXT-2")
async def test_a_session_that_moves_during_the_start_is_read_where_it_is(tmp_path: Path):
    async with staged(tmp_path, git=SlowGit()) as stage:
        stage.hear("please remember the number 1")
        stage.service.history_changed(HistoryChanged("tree", stage.host.transcript.renew()))
        stage.settle()
        await anyio.sleep(40)
        assert "number 1" in stage.texts()[0]
        assert stage.trace.named("branch_unread") == []


# Models (CFG-7, CFG-8).


@pytest.mark.req("CFG-7", "SEL-7")
async def test_a_selector_that_is_missing_is_told_and_never_replaced(tmp_path: Path):
    config = {"models": {"selector": {"model": "nowhere/big/model"}}, "extraction": {"enabled": False}}
    async with staged(tmp_path, config=config) as stage:
        for _ in range(2):
            assert (await stage.say("How do we deploy this service?")).section is not None
        assert stage.host.models.exchanges == []
        level, text = stage.host.notices[0]
        assert level == "warning"
        assert "the model nowhere/big/model is not known; correct models.selector.model" in text
        assert "Selector model: none: the model nowhere/big/model is not known" in await stage.status()


@pytest.mark.req("CFG-7", "EXT-2")
@pytest.mark.parametrize("role", ["extractor", "dream"])
async def test_a_model_of_background_work_that_is_missing_is_told_and_never_replaced(
    tmp_path: Path, role: str
):
    config = {"models": {role: {"model": "nowhere/x"}}, "dream": {"enabled": True}}
    command = {"extractor": "extract", "dream": "dream"}[role]
    async with staged(tmp_path, config={"extraction": {"enabled": False}, **config}) as stage:
        await stage.say()
        answer = await stage.command(command)
        assert answer.level == "error"
        assert "the model nowhere/x is not known" in answer.text
        assert [e.request.model_id for e in stage.host.models.exchanges] == ["selector"]
        assert stage.cursors == 0


@pytest.mark.req("CFG-7", "CFG-8")
@pytest.mark.parametrize(
    ("status", "model", "reason"),
    [
        ("no_credentials", "sim/extractor", "there are no credentials for sim/extractor; log in to it"),
        (
            "no_active_model",
            "inherit",
            "the session has no active model; choose one, or set models.extractor",
        ),
    ],
)
async def test_a_model_without_credentials_or_none_at_all_skips_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: Any, model: str, reason: str
):
    monkeypatch.setattr(ScriptedModels, "resolve", lambda *_: ResolvedModel(status))
    config = {"models": {"extractor": {"model": model}}}
    async with staged(tmp_path, config=config) as stage:
        await stage.prompt("hello")
        stage.hear()
        stage.settle()
        await anyio.sleep(1)
        ((level, text),) = stage.host.notices
        assert (level, reason in text) == ("warning", True)
        assert (stage.host.models.exchanges, stage.cursors) == ([], 0)


@pytest.mark.req("CFG-8")
@pytest.mark.parametrize(
    ("configured", "session", "supported", "sent"),
    [
        ("inherit", "high", True, "high"),
        ("inherit", None, True, None),
        ("inherit", "off", True, None),
        ("low", "high", True, "low"),
        ("off", "high", True, None),
        ("high", "high", False, None),
    ],
)
async def test_a_task_thinks_as_configured_when_it_starts(
    tmp_path: Path,
    configured: str,
    session: Any,
    supported: bool,  # noqa: FBT001 - a column of the table
    sent: str | None,
):
    config = {"models": {"extractor": {"thinkingLevel": configured, "maxTokens": "inherit"}}}
    async with staged(tmp_path, config=config) as stage:
        await stage.ready()
        stage.host.models.reasoning = supported
        await stage.prompt("hello")  # at another level, which counts no more when the task starts
        stage.hear()
        context = structs.replace(stage.context, thinking_level=session)
        stage.service.agent_settled(AgentSettled(context, aborted=False))
        await anyio.sleep(1)
        (request,) = stage.requests()
        assert (request.options.reasoning, request.options.max_tokens) == (sent, None)


@pytest.mark.req("CFG-8")
async def test_each_role_has_its_own_default_level_and_bound(tmp_path: Path):
    async with staged(tmp_path, config={"models": {"extractor": {"maxTokens": 4096}}}) as stage:
        await stage.ready()
        stage.hear()
        context = structs.replace(stage.context, thinking_level="high")
        await stage.service.before_agent_start(BeforeAgentStart(context, "user", "How do we deploy this?"))
        stage.service.agent_settled(AgentSettled(context, aborted=False))
        await anyio.sleep(1)
        selector, extractor = stage.requests(SELECTOR)[0].options, stage.requests()[0].options
        assert (selector.reasoning, selector.max_tokens) == (None, 512)
        assert (extractor.reasoning, extractor.max_tokens) == ("high", 4096)
        assert (
            "Extractor model: sim/extractor, thinking high"
            in (await stage.service.command(Command("status", context))).text
        )


# Compaction.


@pytest.mark.req("EXT-4", "HOST-7")
async def test_a_compaction_that_is_cancelled_leaves_the_run_alone(tmp_path: Path):
    async with staged(tmp_path, keeping("kept.md", delay=20), NOTHING) as stage:
        await stage.say()
        with anyio.move_on_after(5) as scope:
            await stage.service.before_compact(BeforeCompact(stage.context, "manual"))
        assert scope.cancelled_caught
        await anyio.sleep(30)
        assert (stage.cancelled, stage.cursors) == ([], 1)
        assert "kept.md" in stage.files()


@pytest.mark.req("EXT-4", "LIFE-5")
async def test_compactions_at_the_same_time_wait_for_one_run(tmp_path: Path):
    async with staged(tmp_path, Reply(text="x", delay=20)) as stage:
        await stage.prompt("hello")
        stage.hear()
        ended = [Outcome() for _ in range(10)]
        async with anyio.create_task_group() as group:
            for outcome in ended:
                group.start_soon(
                    outcome.of, stage.service.before_compact(BeforeCompact(stage.context, "threshold"))
                )
        assert len({outcome.at for outcome in ended}) == 1
        assert len(stage.requests()) == 1


# A thousand events at once.


BURST = 1_000


def mailboxes(stage: Stage) -> list[int]:
    memory = stage.memory
    return [len(box) for box in (memory.index, memory.prefetch, memory.extractor, memory.dream)]


@asynccontextmanager
async def bursting(root: Path, *replies: Reply, **fields: Any) -> AsyncIterator[Stage]:
    """A session whose background actors have been made and rest."""
    async with staged(root, *replies, **fields) as stage:
        await stage.ready()
        stage.memory.background.set()
        await stage.status()
        yield stage
        await anyio.sleep(1_000)
        assert mailboxes(stage) == [0, 0, 0, 0]
        assert len(stage.memory.generations.scope._listeners) <= 1, "nothing that has ended is kept"


@pytest.mark.req("LIFE-6", "EXT-4")
async def test_a_burst_of_settled_turns_is_one_run_and_one_trailing_run(tmp_path: Path):
    async with bursting(tmp_path, Reply(text="x", delay=10)) as stage:
        for number in range(BURST):
            stage.hear(f"please remember the number {number}.")
            stage.settle()
            if not number:
                await anyio.sleep(1)
        assert max(mailboxes(stage)) == 1
        await anyio.sleep(100)
        first, second = stage.texts()
        assert "number 0." in first
        assert all(f"number {number}." in second for number in range(1, BURST))
        assert stage.cursors == 2


@pytest.mark.req("LIFE-6", "EXT-4")
async def test_turns_that_settle_all_the_time_are_run_after_run_and_none_is_lost(tmp_path: Path):
    """One every tenth of a second, and each run takes thirty: four runs follow the first one."""
    async with bursting(tmp_path, Reply(text="x", delay=30)) as stage:
        for number in range(BURST):
            stage.hear(f"please remember the number {number}.")
            stage.settle()
            await anyio.sleep(0.1)
        await anyio.sleep(100)
        runs = stage.texts()
        assert len(runs) == 5
        said = [number for text in runs for number in range(BURST) if f"number {number}." in text]
        assert said == list(range(BURST))
        assert [event["cause"] for event in stage.trace.named("extraction_begun")] == [
            "settled",
            *["trailing"] * 4,
        ]


@pytest.mark.req("EXT-1", "LIFE-6")
async def test_every_tenth_turn_of_a_hundred_makes_ten_runs(tmp_path: Path):
    config = {"extraction": {"everyNTurns": 10, "idleFlushSeconds": 0}}
    async with bursting(tmp_path, config=config) as stage:
        for number in range(100):
            stage.hear(f"please remember the number {number}.")
            stage.settle()
            await anyio.sleep(1)
        assert len(stage.requests()) == 10
        assert ["number 9." in text for text in stage.texts()] == [True, *[False] * 9]


@pytest.mark.req("EXT-1", "LIFE-6")
async def test_a_burst_of_turns_arms_one_idle_timer(tmp_path: Path):
    config = {"extraction": {"everyNTurns": 5_000, "idleFlushSeconds": 60}}
    async with bursting(tmp_path, config=config) as stage:
        for number in range(BURST):
            stage.hear(f"please remember the number {number}.")
            stage.settle()
            if number % 10 == 0:
                await anyio.sleep(1)
        await anyio.sleep(59)
        assert stage.requests() == []
        await anyio.sleep(2)
        assert len(stage.requests()) == 1
        await anyio.sleep(1_000)
        assert len(stage.requests()) == 1


@pytest.mark.req("LIFE-6", "SEL-1")
async def test_a_burst_of_queued_messages_keeps_few_and_loses_no_settle(tmp_path: Path):
    async with bursting(tmp_path, models={SELECTOR: [HANGS]}) as stage:
        stage.hear()
        for number in range(BURST):
            stage.service.user_message(UserMessage(f"message number {number}", stage.context.history))
        stage.settle()
        assert max(mailboxes(stage)) <= 64
        await anyio.sleep(1)
        assert "Recall: 0 of 61,440 units used on this branch, 4 selecting now" in await stage.status()
        assert len(stage.requests()) == 1, "the turn was extracted all the same"
        stage.settle(aborted=True)


@pytest.mark.req("LIFE-6", "IDX-8")
async def test_a_burst_of_tool_results_answers_every_one_within_its_bound(tmp_path: Path):
    async with bursting(tmp_path) as stage:
        read = {"path": str(stage.places.memory / "deploy.md")}
        started, answers = anyio.current_time(), [Outcome() for _ in range(BURST)]
        async with anyio.create_task_group() as group:
            for number, answer in enumerate(answers):
                event = ToolResult("read", str(number), read, is_error=False)
                group.start_soon(answer.of, stage.service.tool_result(event))
            await turns(1)
            assert max(mailboxes(stage)) <= 64
        assert all(answer.error is None for answer in answers)
        assert all((answer.at or 0) - started <= 0.8 for answer in answers)


@pytest.mark.req("LIFE-6", "HOST-5")
async def test_a_burst_of_moves_ends_where_the_session_is(tmp_path: Path):
    async with bursting(tmp_path) as stage:
        reads = len(stage.host.history_reads)
        for _ in range(BURST):
            stage.service.history_changed(HistoryChanged("tree", stage.host.transcript.renew()))
        assert max(mailboxes(stage)) <= 2
        await anyio.sleep(1)
        assert len(stage.host.history_reads) - reads <= 4
        assert stage.trace.named("branch_unread") == []


@pytest.mark.req("LIFE-6", "CMD-1")
async def test_a_burst_of_commands_is_answered(tmp_path: Path):
    async with bursting(tmp_path) as stage:
        answers = await asyncio.gather(*[stage.command(name) for name in ("status", "list", "extract") * 100])
        assert {answer.text.split(" ")[0] for answer in answers} <= {
            "Auto-memory:",
            "1",
            "No",
            "Nothing",
            "The",
        }
        assert max(mailboxes(stage)) <= 64


@pytest.mark.req("LIFE-6", "LIFE-2")
async def test_a_burst_of_everything_leaves_every_turn_extracted(tmp_path: Path):
    """Settles, moves, messages, tool results, compactions and reloads, all mixed."""
    async with bursting(
        tmp_path, Reply(text="x", delay=5), models={SELECTOR: [Reply(choose=[], delay=3)]}
    ) as stage:
        async with anyio.create_task_group() as group:
            for number in range(BURST // 10):
                stage.hear(f"please remember the number {number}.")
                stage.settle(aborted=number % 7 == 0)
                stage.service.user_message(UserMessage(f"message number {number}", stage.context.history))
                group.start_soon(
                    stage.service.tool_result, ToolResult("bash", "b", {"command": "ls"}, is_error=False)
                )
                if number % 20 == 0:
                    group.start_soon(stage.service.before_compact, BeforeCompact(stage.context, "threshold"))
                if number % 30 == 0:
                    group.start_soon(stage.command, "reload-config")
                await anyio.sleep(0.3)
        await stage.command("extract")
        everything = "".join(stage.texts())
        assert all(f"number {number}." in everything for number in range(BURST // 10))


# What breaks while a session runs.


@pytest.mark.req("LIFE-4", "IDX-3", "C09")
async def test_a_memory_directory_that_disappears_is_made_again_by_what_is_kept(tmp_path: Path):
    async with staged(tmp_path, keeping("new.md"), NOTHING) as stage:
        section = (await stage.prompt("hello")).section
        shutil.rmtree(stage.places.memory)
        assert (await stage.prompt("hello")).section == section, "its bytes stay until a compaction"
        listed = await stage.command("list")
        assert listed.text.startswith(f"No topics in {stage.places.memory} yet.")
        assert "Auto-memory: on" in await stage.status()
        stage.hear()
        stage.settle()
        await anyio.sleep(1)
        assert (stage.places.memory / "new.md").read_text() == "kept\n"
        assert stat.S_IMODE(stage.places.memory.stat().st_mode) == 0o700
        assert stage.host.notices == []


@pytest.mark.req("LIFE-4", "EXT-2")
async def test_a_data_directory_that_disappears_is_told_once_and_loses_nothing(tmp_path: Path):
    async with staged(tmp_path, keeping("new.md"), NOTHING) as stage:
        await stage.say("please remember the number 1")
        data = stage.places.agent_dir / "project-memory"
        data.rename(tmp_path / "aside")
        for number in range(2, 5):
            await stage.say(f"please remember the number {number}")
        ((level, text),) = stage.host.notices
        assert level == "warning"
        assert "cannot use the lock" in text
        assert "No such file or directory; see that its directory exists" in text
        assert stage.cursors == 1
        (tmp_path / "aside").rename(data)
        await stage.say("please remember the number 5")
        assert all(f"number {number}" in stage.texts()[-1] for number in range(2, 6))


@pytest.mark.req("OBS-3", "LIFE-4")
async def test_a_log_that_is_lost_is_told_and_not_named_any_more(tmp_path: Path):
    async with staged(tmp_path) as stage:
        await stage.ready()
        stage.life.log_file = "/logs/session.jsonl"
        assert "Log: /logs/session.jsonl" in await stage.status()
        stage.service.log_lost("/logs/session.jsonl: No space left on device")
        await anyio.sleep(1)
        ((level, text),) = stage.host.notices
        assert (level, "cannot be written (/logs/session.jsonl: No space left" in text) == ("warning", True)
        assert "Log: " not in await stage.status()
        assert (await stage.say()).section is not None


@pytest.mark.req("OBS-3", "LIFE-6")
def test_a_log_without_a_place_is_given_up_once_and_keeps_nothing(tmp_path: Path):
    (tmp_path / "logs").write_text("not a directory")
    told: list[str] = []
    log = SessionLog()
    log.on_lost = told.append
    path = log.locate(tmp_path / "logs", "s1")
    for _ in range(BURST * 2):
        log.event("something")
    assert len(log._waiting) == 1_000, "as many as wait for it to be opened"
    log.open()
    log.open()
    for _ in range(BURST):
        log.event("something")
    log.close()
    assert told == [f"{path}: File exists"]
    assert log._waiting == []


@pytest.mark.req("OBS-3")
def test_a_log_whose_disk_fills_is_given_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []
    write = _RotatingFile.write

    def filling(file: _RotatingFile, data: bytes) -> None:
        if b"second" in data:
            raise OSError(28, "No space left on device")
        write(file, data)

    monkeypatch.setattr(_RotatingFile, "write", filling)
    log = SessionLog()
    log.on_lost = told.append
    path = log.locate(tmp_path / "logs", "s1")
    log.open()
    for name in ("first", "second", "third"):
        log.event(name)
    log.close()
    assert told == [f"{path}: No space left on device"]
    assert b"first" in path.read_bytes()
    assert b"third" not in path.read_bytes()
