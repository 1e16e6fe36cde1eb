"""PrefetchActor: asks the selector which topics matter, and puts them before the model.

A prompt starts a selection beside the loop. Its result comes back as a message; if somebody still waits
for it, the recall is the answer, and if not it goes out once as a late message. Whichever it is, the
branch's state is charged here, in one place, so that no topic is recalled twice.
"""

from __future__ import annotations

import itertools
import uuid
from contextlib import suppress
from functools import partial
from typing import assert_never

from msgspec import Struct, structs
from msgspec.structs import replace

from pi_project_memory.actors.actor import Actor
from pi_project_memory.actors.core.branch import (
    ENTRY_TYPES,
    READ_TYPE,
    RECALL_TYPE,
    SELECTION_TYPE,
    BranchState,
    Pair,
    read_data,
    rebuild,
    recall_details,
    selection_data,
)
from pi_project_memory.actors.core.config import ThinkingLevel
from pi_project_memory.actors.core.jstext import has_js_space, js_trim
from pi_project_memory.actors.core.recall import Loaded, Recall, Verdict, compose, shortened
from pi_project_memory.actors.mailbox import Mailbox, MailboxClosedError, MailboxFullError, Reply
from pi_project_memory.actors.messages import (
    BranchChanged,
    FileRead,
    IndexMessage,
    PrefetchMessage,
    PrefetchStatus,
    PrefetchStatusWanted,
    PromptSubmitted,
    RecallReport,
    Reconfigured,
    SeenWanted,
    Selection,
    SelectionReady,
    TurnAborted,
    UserMessageSeen,
    VersionsSeen,
)
from pi_project_memory.actors.notifier import Notifier
from pi_project_memory.actors.ports.clock import Clock
from pi_project_memory.actors.ports.host import (
    HiddenMessage,
    HistoryHead,
    HostError,
    HostPorts,
    JsonObject,
)
from pi_project_memory.actors.ports.store import MemoryStore
from pi_project_memory.actors.ports.trace import Private, Trace, fault
from pi_project_memory.actors.prompts import prompt
from pi_project_memory.actors.scopes import AbortedError, AbortScope, Generations
from pi_project_memory.actors.selector import Selector

MOST_JOBS = 4
"""Selections at one time; a further one ends the oldest, whose answer would matter least."""

_NUMBERS = itertools.count(1)
"""Counts jobs over all lives: what one of an earlier life says late is taken for nobody else's."""


class PrefetchPorts(Struct, frozen=True):
    """What recall needs from outside; `directory` is the memory directory as it is shown."""

    host: HostPorts
    store: MemoryStore
    selector: Selector
    clock: Clock
    directory: str
    index: Mailbox[IndexMessage]
    notifier: Notifier


class _Job(Struct, frozen=True):
    """A selection under way: who waits for it, and how it can be stopped."""

    scope: AbortScope
    reply: Reply[HiddenMessage | None]


class PrefetchActor(Actor[PrefetchMessage]):
    """Owns the branch's recall state and the selections under way."""

    name = "prefetch"

    def __init__(
        self,
        mailbox: Mailbox[PrefetchMessage],
        generations: Generations,
        trace: Trace,
        *,
        ports: PrefetchPorts,
        head: HistoryHead,
    ) -> None:
        super().__init__(mailbox, generations, trace)
        self._ports = ports
        self._head = head
        self._state = BranchState()
        self._branch = 0
        self._echo_expected = False
        self._held: list[Pair] = []
        self._running: dict[int, _Job] = {}
        self._native_refusals = 0
        self._last: RecallReport | None = None

    async def rebuild(self) -> None:
        """Fold the branch into the recall state; one that cannot be read counts as empty."""
        self._state = BranchState()
        if not self._head.length:
            return
        try:
            # To the very end: a failure in mid-turn comes after entries of which no event has told the length.
            entries = await self._ports.host.read_history(self._head.handle, 0, None, ENTRY_TYPES)
        except HostError as error:
            self.trace.event("branch_unread", actor=self.name, **fault(error))
        else:
            self._state = rebuild(entries)
        self._tell_index(VersionsSeen(self.generations.current, self._state.seen, reset=True))

    async def handle(self, message: PrefetchMessage) -> None:
        """Act on one message."""
        match message:
            case PromptSubmitted():
                self._echo_expected = True
                self._begin(message.prompt, message.session_level, message.reply)
            case UserMessageSeen():
                await self._see_user_message(message)
            case SelectionReady():
                await self._finish(message)
            case TurnAborted():
                self._end_turn("the run was stopped")
            case BranchChanged():
                await self._change_branch(message)
            case FileRead():
                await self._remember_read(message)
            case SeenWanted():
                self._tell_index(VersionsSeen(self.generations.current, self._state.seen, reset=True))
            case Reconfigured():
                self._reconfigure(message)
            case PrefetchStatusWanted():
                message.reply.send(
                    PrefetchStatus(self._state.used, len(self._running), self._native_refusals, self._last)
                )
            case _:
                assert_never(message)

    def dropped(self, message: PrefetchMessage) -> None:
        """Forget the job of a selection that belongs to an older generation."""
        if isinstance(message, SelectionReady) and message.job in self._running:
            self._stop(message.job, "a new generation began")

    def abandon(self, error: Exception) -> None:
        """Tell every waiting turn that no recall comes."""
        for job in self._running.values():
            job.reply.fail(error)
            job.scope.close()
        self._running.clear()

    async def _see_user_message(self, message: UserMessageSeen) -> None:
        """Take a queued or streamed message as a query of its own, but not the echo of a prompt (SEL-1)."""
        if self._echo_expected:
            self._echo_expected = False
            while self._held:
                await self._keep(SELECTION_TYPE, selection_data(self._held.pop(0)))
            return
        nobody: Reply[HiddenMessage | None] = Reply()
        nobody.abandon()
        self._begin(message.text, message.session_level, nobody)

    def _begin(self, query: str, level: ThinkingLevel | None, reply: Reply[HiddenMessage | None]) -> None:
        if obstacle := self._obstacle(query):
            self.trace.event("not_asked", actor=self.name, reason=obstacle)
            reply.send(None)
            return
        if len(self._running) == MOST_JOBS:
            self._stop(min(self._running), "newer messages came")
        number = next(_NUMBERS)
        job = self._running[number] = _Job(self.generations.scope.child(f"selection {number}"), reply)
        self.trace.event("selection_begun", actor=self.name, job=number, query=Private(query))
        stamp = SelectionReady(self.generations.current, number, self._branch, Selection())
        self.start_job(partial(self._select, job.scope, stamp, query, level))

    def _obstacle(self, query: str) -> str:
        """Return why the selector is not called at all for `query`, or "" (SEL-2, RCL-3)."""
        if not has_js_space(js_trim(query)):
            return "a single word is no query"
        return "the recall budget of this branch is used up" if self._state.spent else ""

    async def _select(
        self, scope: AbortScope, stamp: SelectionReady, query: str, level: ThinkingLevel | None
    ) -> None:
        try:
            with scope.guard():
                selection = await self._ports.selector.select(query, self._state.history(), level)
        except AbortedError as error:
            selection = Selection(note=str(error))
        finally:
            scope.close()
        self.tell_itself(structs.replace(stamp, selection=selection))

    async def _finish(self, ready: SelectionReady) -> None:
        job = self._running.get(ready.job)
        if job is None or ready.branch != self._branch:
            reason = "it was given up before" if job is None else "another branch is active"
            self.trace_stale(ready, reason)
            return
        selection = ready.selection
        self._native_refusals = self._native_refusals + 1 if selection.native_refused else 0
        recall = await self._compose(selection)
        if self._is_stale(ready):  # a new generation began while the topics were read
            self._drop(ready, "SelectionReady")
            return
        del self._running[ready.job]  # not before: should that fail, `abandon` still knows who waits
        message = self._message(recall)
        late = not job.reply.send(message)
        self._report(ready, recall, late=late)
        for warning in selection.warnings:
            await self._ports.notifier.tell("warning", warning)
        await self._remember(selection, message if late else None)

    async def _compose(self, selection: Selection) -> Recall:
        loaded = [await self._load(path) for path in selection.paths]
        return compose(
            self._state,
            loaded,
            directory=self._ports.directory,
            guidance=prompt("recall_guidance"),
            now_ms=self._ports.clock.now_ms(),
        )

    async def _load(self, path: str) -> Loaded:
        try:
            read = await self._ports.store.read_topic(path)
        except OSError:
            return Loaded(path, None, "", 0.0)
        return Loaded(path, read.data, read.fingerprint.tag, read.mtime_ms)

    def _message(self, recall: Recall) -> HiddenMessage | None:
        """Return the message for a recall, and charge the branch for it."""
        if not recall.topics:
            return None
        recall_id = uuid.uuid4().hex
        self._state = self._state.with_recall(recall_id, recall.topics)
        self._tell_index(VersionsSeen(self.generations.current, {t.path: t.version for t in recall.topics}))
        return HiddenMessage(RECALL_TYPE, recall.text, recall_details(recall_id, recall.topics))

    async def _remember(self, selection: Selection, late: HiddenMessage | None) -> None:
        """Keep what must survive on the branch, and send a recall for which nobody waited any more.

        The pair goes behind its query: a branch that begins before that message must not know the answer.
        """
        if late is not None:
            try:
                await self._ports.host.send_message(late)
            except HostError as error:
                self.trace.event("host_refused", actor=self.name, **fault(error))
        if selection.pair is None:
            return
        self._state = self._state.with_pair(selection.pair)
        if self._echo_expected:
            self._held.append(selection.pair)
        else:
            await self._keep(SELECTION_TYPE, selection_data(selection.pair))

    async def _keep(self, kind: str, data: JsonObject) -> None:
        try:
            await self._ports.host.append_entry(kind, data)
        except HostError as error:
            self.trace.event("host_refused", actor=self.name, **fault(error))

    def _report(self, ready: SelectionReady, recall: Recall, *, late: bool) -> None:
        selection = ready.selection
        unknown = (Verdict(shortened(name), "unknown name") for name in selection.unknown)
        report = RecallReport(selection, (*recall.verdicts, *unknown), late=late)
        self._last = report
        for verdict in report.verdicts:
            made_up = verdict.reason == "unknown name"
            path = Private(verdict.path) if made_up else verdict.path
            self.trace.event("topic", actor=self.name, path=path, verdict=verdict.reason)
        self.trace.event(
            "recall",
            actor=self.name,
            job=ready.job,
            offered=len(selection.offered),
            chosen=len(selection.paths),
            recalled=len(recall.topics),
            units=sum(topic.units for topic in recall.topics),
            scan_ms=round(selection.scan_seconds * 1000, 1),
            select_ms=round(selection.select_seconds * 1000, 1),
            late=late,
            failed=bool(selection.warnings),
            note=Private(selection.note) if selection.warnings else selection.note,
            text=Private(recall.text),
        )

    def _tell_index(self, message: VersionsSeen) -> None:
        with suppress(MailboxClosedError, MailboxFullError):
            self._ports.index.tell(message)

    async def _change_branch(self, message: BranchChanged) -> None:
        """Take the state from the branch as it is now; a compaction leaves the selections under way."""
        self._head = message.head
        if message.moved:
            self._branch += 1
            self._end_turn("another branch is active")
        await self.rebuild()

    def _reconfigure(self, message: Reconfigured) -> None:
        self._stop_all("the configuration was read anew")
        selector = replace(self._ports.selector, configured=message.config.models.selector)
        self._ports = replace(self._ports, selector=selector)

    async def _remember_read(self, message: FileRead) -> None:
        if self._state.has_read(message.path, message.version):
            return
        self._state = self._state.with_read(message.path, message.version)
        await self._keep(READ_TYPE, read_data(message.path, message.version))

    def _end_turn(self, reason: str) -> None:
        self._echo_expected = False
        self._held.clear()
        self._stop_all(reason)

    def _stop_all(self, reason: str) -> None:
        for number in list(self._running):
            self._stop(number, reason)

    def _stop(self, number: int, reason: str) -> None:
        """Give a selection up: whoever waits gets no recall, and its late answer finds no job."""
        job = self._running.pop(number)
        job.scope.abort(reason)
        job.reply.send(None)
        self.trace.event("prefetch_stopped", actor=self.name, job=number, reason=reason)
