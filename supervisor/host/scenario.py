"""Sessions written down in YAML, for the simulated host (HOST-2).

A scenario lays out a memory directory, scripts the models by name, and lists what happens, step by step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field


class ScenarioError(Exception):
    """A scenario that cannot be played; the text names the file, the place and what is wrong."""


class ProviderError(Struct, frozen=True, forbid_unknown_fields=True):
    """A request that the provider refuses, with its HTTP status if it came so far."""

    message: str
    status: int | None = None


class ToolUse(Struct, frozen=True, forbid_unknown_fields=True):
    """One call of a tool by the scripted model."""

    tool: str
    arguments: dict[str, Any]


class Reply(Struct, frozen=True, forbid_unknown_fields=True):
    """What a model answers to one request, after `delay` seconds; the first field given counts."""

    delay: float = 0.0
    choose: list[str] | None = None
    text: str | None = None
    calls: list[ToolUse] | None = None
    error: ProviderError | None = None
    hang: bool = False
    stop: str = "stop"


class Action(Struct, frozen=True, forbid_unknown_fields=True):
    """Something inside a run of the main agent: it says, it calls a tool, or the user adds a message."""

    say: str | None = None
    call: ToolUse | None = None
    queued: str | None = None
    wait: float = 0.0


class UserTurn(Struct, frozen=True, forbid_unknown_fields=True):
    """A submitted prompt and the run that follows."""

    user: str
    answer: list[Action] = field(default_factory=lambda: [Action(say="Done.")])
    aborted: bool = False


class Compaction(Struct, frozen=True, forbid_unknown_fields=True):
    """A compaction that keeps the last `compact` turns."""

    compact: int


class TreeMove(Struct, frozen=True, forbid_unknown_fields=True):
    """A move in the session tree, to the end of turn `back_to` (0 is the root)."""

    back_to: int


class OutsideEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """An edit of the memory directory by somebody else: path and new text, or null to delete."""

    edit: dict[str, str | None]


class ConfigEdit(Struct, frozen=True, forbid_unknown_fields=True):
    """A new configuration file: its JSON value, or a text that is stored as it is."""

    config: Any


class ClockMove(Struct, frozen=True, forbid_unknown_fields=True):
    """The wall clock moves by `clock` seconds, backwards too."""

    clock: float


class Wait(Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing happens for `wait` seconds."""

    wait: float


class UserCommand(Struct, frozen=True, forbid_unknown_fields=True):
    """The user types `/memory` with these arguments."""

    command: str


Step = UserTurn | Compaction | TreeMove | OutsideEdit | ConfigEdit | ClockMove | Wait | UserCommand

STEPS: Mapping[str, type[Step]] = {
    "user": UserTurn,
    "compact": Compaction,
    "back_to": TreeMove,
    "edit": OutsideEdit,
    "config": ConfigEdit,
    "clock": ClockMove,
    "wait": Wait,
    "command": UserCommand,
}
"""Each kind of step by the key that tells it."""


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole session; `age` of a memory file in seconds, `models` by `provider/model-id`."""

    name: str
    steps: list[Any]
    memory: dict[str, str] = field(default_factory=dict)
    ages: dict[str, float] = field(default_factory=dict)
    project: dict[str, str] = field(default_factory=dict)
    config: Any = None
    models: dict[str, list[Reply]] = field(default_factory=dict)
    api: str = "anthropic-messages"
    trusted: bool = True

    def typed_steps(self) -> list[Step]:
        """Return the steps, each as its own type; raises ScenarioError."""
        return [_step(number, raw) for number, raw in enumerate(self.steps, start=1)]


def load_scenario(path: Path) -> Scenario:
    """Return the scenario in a YAML file; raises ScenarioError."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        raw = YAML(typ="safe").load(path)
        scenario = msgspec.convert(raw, Scenario)
        scenario.typed_steps()
    except OSError as error:
        raise ScenarioError(f"{path} cannot be read: {error.strerror}") from None
    except (YAMLError, msgspec.ValidationError, ScenarioError) as error:
        raise ScenarioError(f"{path} is no scenario: {error}") from None
    return scenario


def _step(number: int, raw: Any) -> Step:
    kinds = [kind for key, kind in STEPS.items() if isinstance(raw, dict) and key in raw]
    if len(kinds) != 1:
        raise ScenarioError(f"step {number} must have exactly one of the keys {', '.join(STEPS)}")
    try:
        return msgspec.convert(raw, kinds[0])
    except msgspec.ValidationError as error:
        raise ScenarioError(f"step {number}: {error}") from None
