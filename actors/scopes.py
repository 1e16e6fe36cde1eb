"""Abort scopes that nest, and the generation counter (LIFE-2, LIFE-3).

A scope is asked to abort once, with a reason; the wish reaches every scope below it, every block it
guards and every callback it was given, at once. That the work has ended is another fact, told by the
work itself. The nesting is session, generation, task, request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio


class AbortedError(Exception):
    """Work ended because its scope was aborted; the text is the reason."""


class AbortScope:
    """One scope of work that can be aborted as a whole."""

    def __init__(self, name: str, parent: AbortScope | None = None) -> None:
        self.name = name
        self.reason: str | None = None
        self._parent = parent
        self._listeners: dict[object, Callable[[str], None]] = {}
        if parent is not None:
            parent._adopt(self)  # noqa: SLF001 - one class

    @property
    def aborted(self) -> bool:
        """Whether an abort was asked for, here or above."""
        return self.reason is not None

    def child(self, name: str) -> AbortScope:
        """Return a scope below this one; below an aborted scope it is aborted from the start."""
        return AbortScope(name, self)

    def abort(self, reason: str) -> None:
        """Ask everything in this scope to end; only the first reason counts.

        A listener that fails keeps it from nobody; what they raised is told at the end as a group.
        """
        if self.aborted:
            return
        self.reason = reason
        errors: list[Exception] = []
        while self._listeners:
            listener = self._listeners.pop(next(iter(self._listeners)))
            try:
                listener(reason)
            except Exception as error:  # noqa: BLE001 - raised below, once everybody has been told
                errors.append(error)
        if errors:
            raise ExceptionGroup(f"listeners failed while {self.name} was aborted", errors)

    def close(self) -> None:
        """Take a finished scope off its parent, which must not remember it for ever."""
        if self._parent is not None:
            self._parent._listeners.pop(self, None)  # noqa: SLF001 - one class
        self._listeners.clear()

    def check(self) -> None:
        """Raise AbortedError if an abort was asked for."""
        if self.reason is not None:
            raise AbortedError(self.reason)

    @contextmanager
    def on_abort(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Call `listener` with the reason when this scope aborts while the block runs."""
        self.check()
        key = object()
        self._listeners[key] = listener
        try:
            yield
        finally:
            self._listeners.pop(key, None)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Cancel the block when this scope aborts, and raise AbortedError in its place."""
        with anyio.CancelScope() as cancel, self.on_abort(lambda _: cancel.cancel()):
            yield
        if cancel.cancelled_caught:
            self.check()

    def _adopt(self, child: AbortScope) -> None:
        if self.reason is not None:
            child.abort(self.reason)
        else:
            self._listeners[child] = child.abort


class Generations:
    """The session's generation counter; whatever belongs to an older number has no effect."""

    def __init__(self, session: AbortScope) -> None:
        self._session = session
        self._number = 0
        self.scope = session.child("generation 0")

    @property
    def current(self) -> int:
        """The number that new work carries."""
        return self._number

    def is_current(self, number: int) -> bool:
        """Tell whether work of `number` may still have an effect."""
        return number == self._number and not self.scope.aborted

    def advance(self, reason: str) -> int:
        """Make all work under way stale and abort it; return the new number."""
        old = self.scope
        self._number += 1
        self.scope = self._session.child(f"generation {self._number}")
        old.abort(reason)
        old.close()
        return self._number
