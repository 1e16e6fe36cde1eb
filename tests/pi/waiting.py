"""Bounded waiting: every wait of the Pi tests ends, and a wait that ends too late says what it waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

import pytest

T = TypeVar("T")

BOUND = 30.0
"""Seconds after which a wait is a failure. A guard against hanging, never a measure of speed."""

POLL = 0.02
"""Seconds between two looks at something that cannot notify, such as /proc."""


async def within(awaitable: Awaitable[T], explain: Callable[[], str], bound: float = BOUND) -> T:
    """Await at most `bound` seconds; after that the test fails with `explain()`."""
    try:
        async with asyncio.timeout(bound):
            return await awaitable
    except TimeoutError:
        pytest.fail(f"gave up after {bound:g} s: {explain()}")


async def until(condition: Callable[[], bool], explain: Callable[[], str], bound: float = BOUND) -> None:
    """Look at `condition` again and again until it holds."""

    async def poll() -> None:
        while not condition():
            await asyncio.sleep(POLL)

    await within(poll(), explain, bound)


class Journal(Generic[T]):
    """An append-only list that can be waited on."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._changed = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def since(self, mark: int) -> list[T]:
        return self._items[mark:]

    def append(self, item: T) -> None:
        self._items.append(item)
        self._wake()

    def close(self) -> None:
        """No further item will come: whoever still waits fails at once."""
        self._closed = True
        self._wake()

    async def find(
        self, wanted: Callable[[T], bool], explain: Callable[[], str], since: int = 0, bound: float = BOUND
    ) -> T:
        """The first item from index `since` on that is `wanted`, waiting for it if need be."""
        return await within(self._find(wanted, explain, since), explain, bound)

    async def _find(self, wanted: Callable[[T], bool], explain: Callable[[], str], position: int) -> T:
        while True:
            for item in self._items[position:]:
                if wanted(item):
                    return item
            position = max(position, len(self._items))
            if self._closed:
                pytest.fail(f"nothing more will come: {explain()}")
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
