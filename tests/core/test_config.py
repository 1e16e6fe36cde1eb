"""Every field of the configuration: what it takes, what it falls back from, and that siblings stay."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pi_project_memory.actors.core.config import (
    DEFAULT_CONFIG,
    INHERIT,
    Config,
    DreamConfig,
    ExtractionConfig,
    Fallback,
    ModelRef,
    Models,
    Parsed,
    RoleModel,
    SelectorModel,
    effective_thinking,
    model_from_text,
    parse_config,
)
from pi_project_memory.actors.core.jsjson import loads

EXAMPLE = Path(__file__).parents[2] / "config.example.json"

GIVEN: dict[str, Any] = {
    "enabled": False,
    "autoMemoryDirectory": "~/notes/memory",
    "models": {
        "selector": {"model": "a/b", "thinkingLevel": "low", "maxTokens": 64.0, "structuredOutput": False},
        "extractor": {"model": "a/b/c", "thinkingLevel": "off", "maxTokens": 4096},
        "dream": {"model": "a//", "thinkingLevel": "max", "maxTokens": 2**53 - 1},
    },
    "extraction": {
        "enabled": False,
        "everyNTurns": 3,
        "idleFlushSeconds": 0,
        "maxTurns": 1,
        "recentMessages": 3,
    },
    "dream": {
        "enabled": False,
        "minimumHours": 1,
        "minimumOtherSessions": 1,
        "scanThrottleSeconds": 0,
        "maxTurns": 1000.0,
    },
}

READ = Config(
    enabled=False,
    auto_memory_directory="~/notes/memory",
    models=Models(
        selector=SelectorModel(ModelRef("a", "b"), "low", 64, structured_output=False),
        extractor=RoleModel(ModelRef("a", "b/c"), "off", 4096),
        dream=RoleModel(ModelRef("a", "/"), "max", 2**53 - 1),
    ),
    extraction=ExtractionConfig(
        enabled=False, every_n_turns=3, idle_flush_seconds=0, max_turns=1, recent_messages=3
    ),
    dream=DreamConfig(
        enabled=False, minimum_hours=1, minimum_other_sessions=1, scan_throttle_seconds=0, max_turns=1000
    ),
)

NOT_BOOLEAN = [None, 0.0, 1.0, "true", "", [], {}]
NOT_MODEL = [None, True, 1.0, "", "opus", "/opus", "anthropic/", "/", "Inherit", ["a/b"], {}]
NOT_LEVEL = [None, False, 0.0, "", "OFF", "none", "ultra", " low", ["low"], {}]
NOT_NUMBER = [None, True, "5", "", 0.5, 1e400, -1e400, 2.0**53, -1.0, [5.0], {}, "Inherit"]
NO_DIRECTORY = [True, 0.0, "", "  ", "\t\ufeff\u2003", [], {}, ["/a/b"]]

FIELDS: dict[str, tuple[str, list[Any]]] = {
    "enabled": ("enabled", NOT_BOOLEAN),
    "autoMemoryDirectory": ("auto_memory_directory", NO_DIRECTORY),
    "models.selector.model": ("models.selector.model", NOT_MODEL),
    "models.selector.thinkingLevel": ("models.selector.thinking_level", NOT_LEVEL),
    "models.selector.maxTokens": ("models.selector.max_tokens", [*NOT_NUMBER, 63.0, 0.0, 64.5]),
    "models.selector.structuredOutput": ("models.selector.structured_output", NOT_BOOLEAN),
    "models.extractor.model": ("models.extractor.model", NOT_MODEL),
    "models.extractor.thinkingLevel": ("models.extractor.thinking_level", NOT_LEVEL),
    "models.extractor.maxTokens": ("models.extractor.max_tokens", [*NOT_NUMBER, 63.0]),
    "models.dream.model": ("models.dream.model", NOT_MODEL),
    "models.dream.thinkingLevel": ("models.dream.thinking_level", NOT_LEVEL),
    "models.dream.maxTokens": ("models.dream.max_tokens", [*NOT_NUMBER, 63.0]),
    "extraction.enabled": ("extraction.enabled", NOT_BOOLEAN),
    "extraction.everyNTurns": ("extraction.every_n_turns", [*NOT_NUMBER, 0.0, "inherit"]),
    "extraction.idleFlushSeconds": ("extraction.idle_flush_seconds", [*NOT_NUMBER, "inherit"]),
    "extraction.maxTurns": ("extraction.max_turns", [*NOT_NUMBER, 0.0, "inherit"]),
    "extraction.recentMessages": ("extraction.recent_messages", [*NOT_NUMBER, 2.0, 0.0]),
    "dream.enabled": ("dream.enabled", NOT_BOOLEAN),
    "dream.minimumHours": ("dream.minimum_hours", [*NOT_NUMBER, 0.0, "inherit"]),
    "dream.minimumOtherSessions": ("dream.minimum_other_sessions", [*NOT_NUMBER, 0.0, "inherit"]),
    "dream.scanThrottleSeconds": ("dream.scan_throttle_seconds", [*NOT_NUMBER, "inherit"]),
    "dream.maxTurns": ("dream.max_turns", [*NOT_NUMBER, 0.0, "inherit"]),
}

BLOCKS = ["models", "models.selector", "models.extractor", "models.dream", "extraction", "dream"]

INHERITING = {
    "models.selector.model": INHERIT,
    "models.extractor.model": INHERIT,
    "models.dream.model": INHERIT,
    "models.selector.thinkingLevel": "inherit",
    "models.extractor.thinkingLevel": "inherit",
    "models.dream.thinkingLevel": "inherit",
    "models.selector.maxTokens": None,
    "models.extractor.maxTokens": None,
    "models.dream.maxTokens": None,
    "extraction.recentMessages": None,
}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["inherit", "off", "a/b", 64.0]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)


def given_with(path: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(GIVEN)
    *blocks, name = path.split(".")
    place = document
    for block in blocks:
        place = place[block]
    if value is ...:
        del place[name]
    else:
        place[name] = value
    return document


def read_with(path: str, value: Any, config: Any = READ) -> Any:
    name, _, rest = path.partition(".")
    inner = read_with(rest, value, getattr(config, name)) if rest else value
    return replace(config, **{name: inner})


def get(path: str, config: Any) -> Any:
    for name in path.split("."):
        config = getattr(config, name)
    return config


@pytest.mark.req("CFG-2", "CFG-3")
def test_the_example_file_is_the_default_configuration_field_by_field():
    document = loads(EXAMPLE.read_bytes())
    assert parse_config(document) == Parsed(DEFAULT_CONFIG)

    def names(value: Any, path: str = "") -> set[str]:
        if not isinstance(value, dict):
            return {path.removeprefix(".")}
        return set().union(*(names(inner, f"{path}.{name}") for name, inner in value.items()))

    assert names(document) == set(FIELDS)


@pytest.mark.req("CFG-3")
def test_the_defaults_are_the_documented_ones():
    assert (
        Config(
            enabled=True,
            auto_memory_directory=None,
            models=Models(
                SelectorModel(INHERIT, "off", 512, structured_output=True),
                RoleModel(INHERIT, "inherit", None),
                RoleModel(INHERIT, "inherit", None),
            ),
            extraction=ExtractionConfig(
                enabled=True, every_n_turns=1, idle_flush_seconds=120, max_turns=5, recent_messages=None
            ),
            dream=DreamConfig(
                enabled=True,
                minimum_hours=24,
                minimum_other_sessions=5,
                scan_throttle_seconds=600,
                max_turns=50,
            ),
        )
        == DEFAULT_CONFIG
    )


@pytest.mark.req("CFG-3", "CFG-7")
def test_every_field_is_read():
    assert parse_config(copy.deepcopy(GIVEN)) == Parsed(READ)
    assert all(get(attribute, READ) != get(attribute, DEFAULT_CONFIG) for attribute, _ in FIELDS.values())


@pytest.mark.req("CFG-3", "CFG-4")
@pytest.mark.parametrize("path", FIELDS)
def test_a_bad_field_falls_back_alone_and_is_told(path: str):
    attribute, bad_values = FIELDS[path]
    expected = read_with(attribute, get(attribute, DEFAULT_CONFIG))
    for value in bad_values:
        parsed = parse_config(given_with(path, value))
        assert parsed.config == expected, value
        assert [fallback.path for fallback in parsed.fallbacks] == [path]
        assert parsed.fallbacks[0].reason.startswith("must be ")


@pytest.mark.req("CFG-3")
@pytest.mark.parametrize("path", FIELDS)
def test_a_missing_field_has_its_default_and_is_no_finding(path: str):
    attribute, _ = FIELDS[path]
    assert parse_config(given_with(path, ...)) == Parsed(read_with(attribute, get(attribute, DEFAULT_CONFIG)))


@pytest.mark.req("CFG-3")
@pytest.mark.parametrize("path", BLOCKS)
@pytest.mark.parametrize("value", [None, True, 1.0, "inherit", [], [{}]])
def test_a_block_of_the_wrong_type_falls_back_as_a_block(path: str, value: Any):
    expected = read_with(path, get(path, DEFAULT_CONFIG))
    assert parse_config(given_with(path, value)) == Parsed(expected, (Fallback(path, "must be an object"),))


@pytest.mark.req("CFG-3")
@pytest.mark.parametrize("value", [None, True, 1.0, "{}", [], [{"enabled": False}]])
def test_anything_but_an_object_is_the_default_configuration(value: Any):
    assert parse_config(value) == Parsed(DEFAULT_CONFIG, (Fallback("", "must be an object"),))


@pytest.mark.req("CFG-3")
def test_null_is_a_directory_setting_and_blank_text_is_not():
    assert parse_config({"autoMemoryDirectory": None}) == Parsed(DEFAULT_CONFIG)
    assert parse_config({"autoMemoryDirectory": " /a/b "}).config.auto_memory_directory == " /a/b "
    assert len(parse_config({"autoMemoryDirectory": "\ufeff"}).fallbacks) == 1
    assert parse_config({"autoMemoryDirectory": "\x1c"}).config.auto_memory_directory == "\x1c"


@pytest.mark.req("CFG-3", "CFG-8")
@pytest.mark.parametrize("path", INHERITING)
def test_inherit_is_a_value_of_its_own(path: str):
    attribute, _ = FIELDS[path]
    assert parse_config(given_with(path, "inherit")) == Parsed(read_with(attribute, INHERITING[path]))


@pytest.mark.req("CFG-3")
def test_unknown_fields_are_ignored():
    document = {"enabled": False, "extra": 1.0, "models": {"planner": {}, "dream": {"temperature": 1.0}}}
    assert parse_config(document) == Parsed(Config(enabled=False))


@pytest.mark.req("CFG-3", "CFG-4")
@pytest.mark.parametrize(
    ("text", "expected", "told"),
    [
        (b'{"extraction": {"maxTurns": 5.0}}', 5, []),
        (b'{"extraction": {"maxTurns": 1e3}}', 1000, []),
        (b'{"extraction": {"maxTurns": 9007199254740991}}', 2**53 - 1, []),
        (b'{"extraction": {"maxTurns": 9007199254740993}}', 5, ["extraction.maxTurns"]),
        (b'{"extraction": {"maxTurns": 1e400}}', 5, ["extraction.maxTurns"]),
        (b'{"extraction": {"maxTurns": true}}', 5, ["extraction.maxTurns"]),
        (b'{"extraction": {"maxTurns": 7, "maxTurns": 8}}', 8, []),
        (b'{"extraction": {"maxTurns": 7, "maxTurns": "8"}}', 5, ["extraction.maxTurns"]),
    ],
)
def test_numbers_as_javascript_reads_them(text: bytes, expected: int, told: list[str]):
    parsed = parse_config(loads(text))
    assert parsed.config == Config(extraction=ExtractionConfig(max_turns=expected))
    assert type(parsed.config.extraction.max_turns) is int
    assert [fallback.path for fallback in parsed.fallbacks] == told


@pytest.mark.req("CFG-3")
def test_fallbacks_come_in_the_order_of_the_table():
    document = {"dream": {"maxTurns": 0.0, "enabled": None}, "models": 1.0, "enabled": "no"}
    told = [fallback.path for fallback in parse_config(document).fallbacks]
    assert told == ["enabled", "models", "dream.enabled", "dream.maxTurns"]


@pytest.mark.req("CFG-3")
@given(json_values)
def test_no_value_makes_parsing_fail(value: Any):
    assert isinstance(parse_config(value).config, Config)


@pytest.mark.req("CFG-3")
@given(st.dictionaries(st.sampled_from(sorted(FIELDS)), json_values, max_size=4))
def test_whatever_a_field_holds_its_siblings_are_not_affected(replaced: dict[str, Any]):
    document = copy.deepcopy(GIVEN)
    for path, value in replaced.items():
        *blocks, name = path.split(".")
        place = document
        for block in blocks:
            place = place[block]
        place[name] = value
    config = parse_config(document).config
    for path, (attribute, _) in FIELDS.items():
        if path not in replaced:
            assert get(attribute, config) == get(attribute, READ)


@pytest.mark.req("CFG-7")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("inherit", INHERIT),
        ("anthropic/claude", ModelRef("anthropic", "claude")),
        ("openrouter/anthropic/claude", ModelRef("openrouter", "anthropic/claude")),
        ("a/b/", ModelRef("a", "b/")),
        ("a//b", ModelRef("a", "/b")),
        ("inherit/x", ModelRef("inherit", "x")),
        ("a/", None),
        ("/a", None),
        ("//a", None),
        ("a", None),
        ("", None),
    ],
)
def test_a_model_name_splits_at_its_first_slash(text: str, expected: Any):
    assert model_from_text(text) == expected


@pytest.mark.req("CFG-8")
@pytest.mark.parametrize(
    ("configured", "session", "expected"),
    [
        ("inherit", "high", "high"),
        ("inherit", "off", "off"),
        ("inherit", None, "off"),
        ("low", "high", "low"),
        ("off", "high", "off"),
        ("max", None, "max"),
    ],
)
def test_inherited_thinking_is_the_sessions_or_off(configured: Any, session: Any, expected: str):
    assert effective_thinking(configured, session) == expected
