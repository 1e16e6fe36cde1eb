"""Reading the session's history over the pipe: in chunks, as far as there is any."""

from __future__ import annotations

from typing import Any

import pytest

from pi_project_memory.supervisor.host.pipe import PipeHost

Asked = tuple[int, int, list[str] | None]


class OtherSide:
    """A peer with a branch of `length` entries; it clips a range that goes beyond it."""

    def __init__(self, length: int) -> None:
        self.entries = [{"id": str(number), "type": "message"} for number in range(length)]
        self.asked: list[Asked] = []

    async def request(self, method: str, params: Any, answer: Any, deadline: float) -> Any:
        assert method == "history/read"
        self.asked.append((params.start, params.stop, params.types))
        return answer(self.entries[params.start : params.stop])


@pytest.mark.req("HOST-5", "HOST-6")
@pytest.mark.parametrize(
    ("length", "start", "stop", "asked"),
    [
        (5, 0, 5, [(0, 5)]),
        (5, 3, 3, []),
        (450, 0, 450, [(0, 200), (200, 400), (400, 450)]),
        (400, 0, 400, [(0, 200), (200, 400)]),
        (450, 130, 450, [(130, 330), (330, 450)]),
        (250, 0, 900, [(0, 200), (200, 400)]),
        (5, 0, None, [(0, 200)]),
        (200, 0, None, [(0, 200), (200, 400)]),
        (250, 10, None, [(10, 210), (210, 410)]),
        (0, 0, None, [(0, 200)]),
    ],
)
async def test_a_range_is_fetched_in_chunks_to_its_end_or_the_branchs(
    length: int, start: int, stop: int | None, asked: list[tuple[int, int]]
):
    other = OtherSide(length)
    read = await PipeHost(other).read_history("h1", start, stop)  # type: ignore[arg-type]
    assert read == other.entries[start:stop]
    assert other.asked == [(first, last, None) for first, last in asked]


@pytest.mark.req("HOST-5")
async def test_the_wanted_types_are_named_in_every_chunk():
    other = OtherSide(201)
    await PipeHost(other).read_history("h1", 0, None, ["custom"])  # type: ignore[arg-type]
    assert other.asked == [(0, 200, ["custom"]), (200, 400, ["custom"])]
