"""Options and operands of one simple command, read as `getopt` reads them, by the table alone (SUB-6)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pi_project_memory.actors.core.bash_table import COMMANDS, OPTION_REASONS, Command, Operands, Value
from pi_project_memory.actors.subagent.bash_words import Word
from pi_project_memory.actors.subagent.refusal import RefusalError

_NUMBER = re.compile(r"[+-]?[0-9]+[A-Za-z]*")
_COUNT = re.compile(r"-[0-9]+")
_QUOTE_IT = "Put the pattern in quotes."


@dataclass(slots=True)
class Arguments:
    """What a command was given: options with their last values, operands, and the paths that options name.

    `dashes` tells whether `--` ended the options.
    """

    options: dict[str, str] = field(default_factory=dict)
    operands: list[Word] = field(default_factory=list)
    paths: list[Word] = field(default_factory=list)
    dashes: bool = False


def read_arguments(name: str, words: Sequence[Word]) -> Arguments:
    """Sort the words after the command `name`; raises RefusalError for an option without a row in the table."""
    return _Reader(name, COMMANDS[name], deque(words)).read()


@dataclass(slots=True)
class _Reader:
    name: str
    command: Command
    waiting: deque[Word]
    found: Arguments = field(default_factory=Arguments)

    def read(self) -> Arguments:
        step = self._primary if self.command.operands is Operands.EXPRESSION else self._argument
        if self.command.operands is Operands.TEXT and not self.command.options:
            self._rest()
        while self.waiting:
            step(self.waiting.popleft())
        return self.found

    def _argument(self, word: Word) -> None:
        text = word.value
        if self._is_late(text):
            raise RefusalError(word.source, "it stands after an operand", "Put all options first.")
        if text == "--":
            self.found.dashes = True
            self._rest()
        elif text == "-" or not text.startswith("-"):
            self.found.operands.append(word)
            if self.command.operands is Operands.COMMAND:
                self._rest()
        elif text.startswith("--"):
            option, joined, value = text.partition("=")
            self._option(word, option, value if joined else None)
        elif not (self.command.counts and _COUNT.fullmatch(text)):
            self._cluster(word)

    def _is_late(self, text: str) -> bool:
        """Tell whether a system that reads no options after operands would remove or write a file `text`."""
        late = bool(self.found.operands) and text.startswith("-")
        return late and self.command.operands in {Operands.ONE_PATH, Operands.TOPICS}

    def _rest(self) -> None:
        self.found.operands.extend(self.waiting)
        self.waiting.clear()

    def _cluster(self, word: Word) -> None:
        """Read `-abc`: flags up to the first letter that takes a value, the rest of the word then being it."""
        for position, letter in enumerate(word.value[1:], start=2):
            option = f"-{letter}"
            if self._kind(word, option) is not Value.NONE:
                self._option(word, option, word.value[position:] or None)
                return
            self.found.options[option] = ""

    def _option(self, word: Word, option: str, joined: str | None) -> None:
        kind = self._kind(word, option)
        if kind is Value.NONE and joined is not None:
            raise RefusalError(word.source, f"{option} takes no value", "Leave the value out.")
        if kind in {Value.NONE, Value.JOINED}:
            self.found.options[option] = joined or ""
        elif joined is None:
            self._separate(word, option, kind)
        else:
            self._value(option, kind, Word(word.source, joined, word.pattern))

    def _separate(self, word: Word, option: str, kind: Value) -> None:
        """Take the next word as value, but no text after an operand: not every system would read it so."""
        if not self.waiting:
            raise RefusalError(word.source, f"{option} needs a value", "Give one.")
        if self.found.operands and kind is not Value.NUMBER:
            raise RefusalError(word.source, "it stands after an operand", "Put options with values first.")
        self._value(option, kind, self.waiting.popleft())

    def _value(self, option: str, kind: Value, value: Word) -> None:
        if kind is Value.NUMBER and not _NUMBER.fullmatch(value.value):
            raise RefusalError(value.source, f"{option} takes a number", "Give a plain number.")
        if kind is Value.PATH:
            if value.pattern is not None:
                raise RefusalError(value.source, f"{option} takes one literal path", "Name the file.")
            self.found.paths.append(value)
        self.found.options[option] = value.value

    def _primary(self, word: Word) -> None:
        """Read a word of `find`: starting points, then the expression."""
        text = word.value
        if text.startswith("-") or text in self.command.options:
            kind = self._kind(word, text)
            self.found.options[text] = ""
            if kind is not Value.NONE:
                self._separate_primary(word, kind)
        elif self.found.options:
            raise RefusalError(word.source, "a path after the expression began", "Put the paths first.")
        else:
            self.found.operands.append(word)

    def _separate_primary(self, word: Word, kind: Value) -> None:
        if not self.waiting:
            raise RefusalError(word.source, "it needs a value", "Give one.")
        self._value(word.value, kind, self.waiting.popleft())

    def _kind(self, word: Word, option: str) -> Value:
        kind = self.command.options.get(option)
        if kind is None:
            default = f"{option} is not among the reading options of {self.name}"
            reason = OPTION_REASONS.get((self.name, option))
            told = f"{self.name} {option} is not allowed, as {reason}" if reason else default
            raise RefusalError(word.source, told, "Leave the option out.")
        return kind
