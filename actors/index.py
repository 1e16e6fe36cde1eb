"""IndexActor: the memory section, the list of topics, and what the model knows of the files on disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import assert_never

import anyio

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.core.branch import NOTICE_TYPE, SEEN_TYPE, seen_details
from pi_project_memory.actors.core.changes_notice import DELETED, INDEX, notice_text, outdated, remark
from pi_project_memory.actors.core.config import Role
from pi_project_memory.actors.core.lint import lint_index, lint_topic, staleness_note
from pi_project_memory.actors.core.sanitize import sanitize
from pi_project_memory.actors.core.snapshots import Fingerprint
from pi_project_memory.actors.core.windows import index_window
from pi_project_memory.actors.mailbox import Mailbox, MailboxClosedError, MailboxFullError
from pi_project_memory.actors.messages import (
    BackgroundWrites,
    ChangesDue,
    ChangesWanted,
    FileRead,
    IndexMessage,
    PrefetchMessage,
    Section,
    SectionOutdated,
    SectionWanted,
    SeenWanted,
    ToolUsed,
    TopicList,
    TopicsWanted,
    VersionsSeen,
)
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.actors.ports.host import HiddenMessage, HostError, HostPorts
from pi_project_memory.actors.ports.store import MemoryStore, TopicRead
from pi_project_memory.actors.ports.trace import Private, Trace, fault
from pi_project_memory.actors.prompts import fill, prompt
from pi_project_memory.actors.scopes import Generations
from pi_project_memory.actors.subagent.baseline import count_lines, is_whole

EMPTY_INDEX = "(MEMORY.md is empty or does not exist yet.)"
WRITERS = frozenset({"write", "edit"})


class IndexActor(Actor[IndexMessage]):
    """Owns the cached section (IDX-4), and the versions of the files that the model has met (IDX-7)."""

    name = "index"

    def __init__(
        self,
        mailbox: Mailbox[IndexMessage],
        generations: Generations,
        trace: Trace,
        *,
        host: HostPorts,
        store: MemoryStore,
        clock: Clock,
        directory: str,
        prefetch: Mailbox[PrefetchMessage],
        remade: bool,
    ) -> None:
        super().__init__(mailbox, generations, trace)
        self._remade = remade
        self._host = host
        self._store = store
        self._clock = clock
        self._directory = directory
        self._prefetch = prefetch
        self._section: Section | None = None
        self._seen: dict[str, str] = {}
        self._untold: set[str] = set()
        self._snapshot: Mapping[str, Fingerprint] = {}
        self._background: dict[Role, set[str]] = {}

    async def rebuild(self) -> None:
        """Ask what the model has met, which the first of its kind is told; the section is loaded when wanted."""
        if self._remade:
            self._tell_prefetch(SeenWanted(self.generations.current))

    async def handle(self, message: IndexMessage) -> None:
        """Act on one message."""
        match message:
            case SectionWanted():
                message.reply.send(await self._cached_section())
            case SectionOutdated():
                self._section = None
                # The next one holds the index as it is then, whatever happens to it until then.
                self._seen.pop(INDEX, None)
                self._untold.discard(INDEX)
            case TopicsWanted():
                topics = await self._store.scan()
                message.reply.send(TopicList(topics, await self._store.read_index()))
            case VersionsSeen():
                self._meet(message)
            case ChangesWanted():
                if message.reply.send(await self._notice()):
                    self._untold.clear()
            case ChangesDue():
                await self._send_notice(message)
            case ToolUsed():
                message.reply.send(await self._judge_tool(message))
            case BackgroundWrites():
                await self._absorb_background(message)
            case _:
                assert_never(message)

    async def _cached_section(self) -> Section:
        if self._section is None:
            started = anyio.current_time()
            await self._look()
            index = await self._store.read_index()
            if index and INDEX not in self._snapshot:
                await self._look()  # there was none, and the reading has made one of the topics
            self._section = make_section(index, self._directory)
            self._meet_now(INDEX)
            self.trace.event(
                "index_loaded",
                actor=self.name,
                lines=self._section.lines,
                units=self._section.units,
                ms=round((anyio.current_time() - started) * 1000, 1),
                text=Private(self._section.text),
            )
        return self._section

    def _meet(self, message: VersionsSeen) -> None:
        """Take over what the model has met through recalls; the index it meets here alone."""
        versions = {path: tag for path, tag in message.versions.items() if path != INDEX}
        if message.reset:
            self._seen = {path: tag for path, tag in self._seen.items() if path == INDEX}
            self._untold &= {INDEX}
        self._seen |= versions
        self._untold -= versions.keys()

    def _meet_now(self, path: str) -> None:
        """Note that the model knows the file as the last snapshot found it."""
        self._seen[path] = self._snapshot[path].tag if path in self._snapshot else DELETED
        self._untold.discard(path)

    async def _look(self, silently: Collection[str] = ()) -> None:
        """Take a snapshot, and note the files that the model knows an older version of.

        Changes of those in `silently` are its own or told elsewhere; the branch keeps that they are known.
        """
        try:
            snapshot = await self._store.snapshot()
        except OSError as error:
            self.trace.event("no_snapshot", actor=self.name, **fault(error))
            return
        changed = outdated(self._seen, self._snapshot, snapshot)
        self._snapshot = snapshot
        self._seen |= changed
        self._untold |= changed.keys() - set(silently)
        await self._keep({path: tag for path, tag in changed.items() if path in silently and path != INDEX})

    async def _keep(self, versions: Mapping[str, str]) -> None:
        if not versions:
            return
        try:
            await self._host.append_entry(SEEN_TYPE, seen_details(versions))
        except HostError as error:
            self.trace.event("host_refused", actor=self.name, **fault(error))

    async def _notice(self) -> HiddenMessage | None:
        """Return the notice of what is untold, which it stays until the notice has found its way."""
        await self._look(silently=self._in_background())
        if not self._untold:
            return None
        changed = {path: self._seen[path] for path in self._untold}
        self.trace.event("outside_change", actor=self.name, files=len(changed))
        return HiddenMessage(NOTICE_TYPE, notice_text(changed, self._directory), seen_details(changed))

    async def _send_notice(self, due: ChangesDue) -> None:
        notice = await self._notice()
        if notice is None or self._is_stale(due):
            return  # what is untold is told before the next request
        try:
            await self._host.send_message(notice)
        except HostError as error:
            self.trace.event("host_refused", actor=self.name, **fault(error))
        else:
            self._untold.clear()

    async def _absorb_background(self, message: BackgroundWrites) -> None:
        """Take a run's own changes as known: its summary tells of them (EXT-8).

        Those of a run that ended without one are told like anybody's.
        """
        self._background.setdefault(message.role, set()).update(message.paths)
        if message.ended:
            if message.told:
                await self._look(silently=self._in_background())
            del self._background[message.role]

    def _in_background(self) -> set[str]:
        """Return the files that runs under way have touched."""
        return {path for paths in self._background.values() for path in paths}

    async def _judge_tool(self, used: ToolUsed) -> str | None:
        """Return what the main agent's tool call calls for: a reminder, a finding, or nothing."""
        if used.tool == "bash":
            if self._directory in used.text or INDEX in used.text:
                await self._look(silently=set(self._seen))
            return None
        path = await self._store.locate(used.path)
        if path is None:
            return None
        if used.tool in WRITERS:
            return await self._after_write(path)
        return await self._after_read(path, used)

    async def _after_write(self, path: str) -> str | None:
        await self._look(silently={path})
        self._meet_now(path)
        read = await self._read(path)
        if read is None:
            return None
        if path == INDEX:
            topics = [topic.path for topic in await self._store.scan()]
            findings = lint_index(read.data.decode("utf-8", "replace"), topics)
        else:
            findings = lint_topic(path, read.data)
        return remark("\n".join(findings)) if findings else None

    async def _after_read(self, path: str, used: ToolUsed) -> str | None:
        await self._look()
        read = await self._read(path)
        if read is None:
            return None
        arguments = {"offset": used.offset, "limit": used.limit}
        whole = used.complete and is_whole(arguments, count_lines(read.data))
        if whole:
            self._meet_now(path)
        if path == INDEX:
            return None
        if whole:
            self._tell_prefetch(FileRead(self.generations.current, path, read.fingerprint.tag))
        note = staleness_note(read.mtime_ms, self._clock.now_ms())
        return remark(note) if note else None

    async def _read(self, path: str) -> TopicRead | None:
        try:
            return await self._store.read_file(path)
        except OSError:
            return None

    def _tell_prefetch(self, message: FileRead | SeenWanted) -> None:
        with suppress(MailboxClosedError, MailboxFullError):
            self._prefetch.tell(message)


def make_section(index: str, directory: str) -> Section:
    """Return the section for an index text: the standing rules, the directory, the window of the index."""
    window = index_window(index)
    shown = sanitize(window.text).strip("\n") or EMPTY_INDEX
    text = fill(prompt("main_section"), memory_directory=sanitize(directory), index=shown)
    return Section(text, window.lines_total, window.units_total, window.truncated)
