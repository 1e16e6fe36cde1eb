"""The configuration, its defaults, and how each field falls back to its own (CFG-2, CFG-3, CFG-7, CFG-8).

One table holds a rule per field. A rule returns the value to use, or says what is wrong with the one given;
the field then keeps its default and its siblings are not affected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from msgspec import Struct
from msgspec.structs import replace

from pi_project_memory.actors.core.jsjson import JsonValue, as_safe_integer
from pi_project_memory.actors.core.jstext import js_trim

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
ConfiguredThinking = Literal["inherit", "off", "minimal", "low", "medium", "high", "xhigh", "max"]
Role = Literal["selector", "extractor", "dream"]


class Inherit(Struct, frozen=True):
    """The session's own model."""


class ModelRef(Struct, frozen=True):
    """One model by name; `model_id` may itself contain slashes."""

    provider: str
    model_id: str


INHERIT: Final = Inherit()


class RoleModel(Struct, frozen=True):
    """The model of one role; `max_tokens` in output tokens, None (inherit) leaves the bound to the host."""

    model: Inherit | ModelRef = INHERIT
    thinking_level: ConfiguredThinking = "inherit"
    max_tokens: int | None = None


class SelectorModel(RoleModel, frozen=True):
    """The selector's model, and whether a native JSON schema is tried first."""

    thinking_level: ConfiguredThinking = "off"
    max_tokens: int | None = 512
    structured_output: bool = True


class Models(Struct, frozen=True):
    """The model of each role."""

    selector: SelectorModel = SelectorModel()
    extractor: RoleModel = RoleModel()
    dream: RoleModel = RoleModel()


class ExtractionConfig(Struct, frozen=True):
    """When and how far to extract; `recent_messages` None (inherit) means all that are unprocessed."""

    enabled: bool = True
    every_n_turns: int = 1
    idle_flush_seconds: int = 120
    max_turns: int = 5
    recent_messages: int | None = None


class DreamConfig(Struct, frozen=True):
    """The gates of consolidation and the length of one run."""

    enabled: bool = True
    minimum_hours: int = 24
    minimum_other_sessions: int = 5
    scan_throttle_seconds: int = 600
    max_turns: int = 50


class Config(Struct, frozen=True):
    """The whole configuration; `auto_memory_directory` is the text as given, not yet checked (CFG-5)."""

    enabled: bool = True
    auto_memory_directory: str | None = None
    models: Models = Models()
    extraction: ExtractionConfig = ExtractionConfig()
    dream: DreamConfig = DreamConfig()


DEFAULT_CONFIG: Final = Config()


class Fallback(Struct, frozen=True):
    """A value that was not usable: its path, as in `models.dream.maxTokens`, and what it must be.

    The path of the whole value is empty.
    """

    path: str
    reason: str


class Parsed(Struct, frozen=True):
    """A configuration, and the fields that kept their default in spite of a value."""

    config: Config
    fallbacks: tuple[Fallback, ...] = ()


def parse_config(value: JsonValue) -> Parsed:
    """Return the configuration that `value` describes; it never fails, it falls back (CFG-3)."""
    fallbacks: list[Fallback] = []
    config = _read_block(_CONFIG, DEFAULT_CONFIG, value, "", fallbacks)
    return Parsed(config, tuple(fallbacks))


def effective_thinking(configured: ConfiguredThinking, session_level: ThinkingLevel | None) -> ThinkingLevel:
    """Return the level a task starts with, before the host clamps it to the model (CFG-8)."""
    return session_level or "off" if configured == "inherit" else configured


def model_from_text(text: str) -> Inherit | ModelRef | None:
    """Return the model that `text` names, split at its first slash, or None when it names none (CFG-7)."""
    if text == "inherit":
        return INHERIT
    provider, _, model_id = text.partition("/")
    return ModelRef(provider, model_id) if provider and model_id else None


class _Wrong(Struct, frozen=True):
    """What a field must be and is not."""

    reason: str


_Rule: TypeAlias = Callable[[JsonValue], object]


class _Block(Struct, frozen=True):
    """A JSON object: each name in the file, with the attribute it fills and the rule that reads it."""

    fields: Mapping[str, tuple[str, _Rule | _Block]]


_Settings = TypeVar("_Settings", bound=Config | Models | RoleModel | ExtractionConfig | DreamConfig)


def _read_block(
    block: _Block, default: _Settings, value: JsonValue, path: str, fallbacks: list[Fallback]
) -> _Settings:
    if not isinstance(value, dict):
        fallbacks.append(Fallback(path, "must be an object"))
        return default
    accepted: dict[str, Any] = {}
    for name, (attribute, rule) in block.fields.items():
        if name not in value:
            continue
        here = f"{path}.{name}" if path else name
        if isinstance(rule, _Block):
            found = _read_block(rule, getattr(default, attribute), value[name], here, fallbacks)
        else:
            found = rule(value[name])
        if isinstance(found, _Wrong):
            fallbacks.append(Fallback(here, found.reason))
        else:
            accepted[attribute] = found
    return replace(default, **accepted)


def _boolean(value: JsonValue) -> bool | _Wrong:
    return value if isinstance(value, bool) else _Wrong("must be true or false")


def _directory(value: JsonValue) -> str | _Wrong | None:
    if value is None or (isinstance(value, str) and js_trim(value)):
        return value
    return _Wrong("must be null or the path of a directory")


def _model(value: JsonValue) -> Inherit | ModelRef | _Wrong:
    model = model_from_text(value) if isinstance(value, str) else None
    return model or _Wrong('must be "inherit" or "provider/model-id"')


def _thinking(value: JsonValue) -> object:
    levels = get_args(ConfiguredThinking)
    return value if value in levels else _Wrong(f"must be one of {', '.join(levels)}")


def _at_least(minimum: int) -> _Rule:
    def read(value: JsonValue) -> int | _Wrong:
        number = as_safe_integer(value)
        if number is None or number < minimum:
            return _Wrong(f"must be an integer of at least {minimum}")
        return number

    return read


def _inherit_or_at_least(minimum: int) -> _Rule:
    number = _at_least(minimum)

    def read(value: JsonValue) -> object:
        found = None if value == "inherit" else number(value)
        return _Wrong(f'{found.reason}, or "inherit"') if isinstance(found, _Wrong) else found

    return read


_ROLE: dict[str, tuple[str, _Rule | _Block]] = {
    "model": ("model", _model),
    "thinkingLevel": ("thinking_level", _thinking),
    "maxTokens": ("max_tokens", _inherit_or_at_least(64)),
}
_SELECTOR = _Block({**_ROLE, "structuredOutput": ("structured_output", _boolean)})
_MODELS = _Block(
    {
        "selector": ("selector", _SELECTOR),
        "extractor": ("extractor", _Block(_ROLE)),
        "dream": ("dream", _Block(_ROLE)),
    }
)
_EXTRACTION = _Block(
    {
        "enabled": ("enabled", _boolean),
        "everyNTurns": ("every_n_turns", _at_least(1)),
        "idleFlushSeconds": ("idle_flush_seconds", _at_least(0)),
        "maxTurns": ("max_turns", _at_least(1)),
        "recentMessages": ("recent_messages", _inherit_or_at_least(3)),
    }
)
_DREAM = _Block(
    {
        "enabled": ("enabled", _boolean),
        "minimumHours": ("minimum_hours", _at_least(1)),
        "minimumOtherSessions": ("minimum_other_sessions", _at_least(1)),
        "scanThrottleSeconds": ("scan_throttle_seconds", _at_least(0)),
        "maxTurns": ("max_turns", _at_least(1)),
    }
)
_CONFIG = _Block(
    {
        "enabled": ("enabled", _boolean),
        "autoMemoryDirectory": ("auto_memory_directory", _directory),
        "models": ("models", _MODELS),
        "extraction": ("extraction", _EXTRACTION),
        "dream": ("dream", _DREAM),
    }
)
