"""The prompts, as text files in our own words (PRM-1)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

PromptName = Literal[
    "main_section",
    "selector",
    "selector_tool",
    "selector_tool_mode",
    "recall_guidance",
    "tool_section",
    "tool_codemode",
    "extractor",
    "dream",
]


@cache
def prompt(name: PromptName) -> str:
    """Return the static text of a prompt, without a line break at its end."""
    return (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def fill(template: str, **values: str) -> str:
    """Put each value in the place of its `{{name}}`, in one pass, so that a value is never a template."""
    parts = template.split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        name, rest = part.split("}}", 1)
        filled.extend((values[name], rest))
    return "".join(filled)
