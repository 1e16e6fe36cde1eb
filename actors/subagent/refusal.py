"""How a policy says no: the refused part, why, and what to do instead."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST_PART = 200
"""Characters of a part that are shown, enough to find it again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What is not done, as shown to the model."""

    part: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"Refused: {self.part}: {self.reason}. {self.remedy}"


class RefusalError(Exception):
    """Carries a refusal out of a policy's helpers; the policies themselves return it."""

    def __init__(self, part: str, reason: str, remedy: str) -> None:
        shown = part if len(part) <= _LONGEST_PART else f"{part[:_LONGEST_PART]}…"
        self.refusal = Refusal(shown, reason, remedy)
        super().__init__(str(self.refusal))
