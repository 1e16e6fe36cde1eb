"""The static judgement on a bash command of a background run, before any shell sees it (SUB-6).

Whatever is not understood is refused. An allowed command reads below the read roots and has no effect but the
removal of the topics it names; paths that `xargs` passes on at run time are knowingly not judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pi_project_memory.actors.core.bash_table import (
    COMMANDS,
    INSTEAD,
    PLACEHOLDERS,
    Command,
    Operands,
    UnderXargs,
)
from pi_project_memory.actors.subagent.bash_arguments import Arguments, read_arguments
from pi_project_memory.actors.subagent.bash_globs import glob_base, glob_matches
from pi_project_memory.actors.subagent.bash_words import Word, simple_commands
from pi_project_memory.actors.subagent.path_policy import ReadRoots, resolve_removal
from pi_project_memory.actors.subagent.real_paths import real_path
from pi_project_memory.actors.subagent.refusal import Refusal as Refused
from pi_project_memory.actors.subagent.refusal import RefusalError

__all__ = ["Allowed", "Refused", "check_command"]

MOST_PATHS = 2_000
"""Paths of one command that are looked up, a wildcard counting as many as `_WILDCARD_COST`."""

_WILDCARD_COST = 50
_PATTERN_OPTIONS = frozenset({"-e", "-f", "--regexp", "--file"})
_QUOTED = "Put it in quotes."


@dataclass(frozen=True, slots=True)
class Allowed:
    """A command that may run: the topics it removes and the paths it names for reading, all resolved."""

    removals: tuple[Path, ...]
    reads: tuple[Path, ...]


def check_command(command: str, *, cwd: Path, roots: ReadRoots, memory_root: Path) -> Allowed | Refused:
    """Judge `command` as bash would run it in `cwd`; looks at the disk, starts nothing, raises nothing."""
    judge = _Judge(cwd, roots, memory_root)
    try:
        for words in simple_commands(command):
            judge.command(words)
    except RefusalError as refused:
        return refused.refusal
    return Allowed(tuple(dict.fromkeys(judge.removals)), tuple(dict.fromkeys(judge.reads)))


@dataclass(slots=True)
class _Judge:
    cwd: Path
    roots: ReadRoots
    memory_root: Path
    removals: list[Path] = field(default_factory=list)
    reads: list[Path] = field(default_factory=list)
    budget: int = MOST_PATHS

    def command(self, words: list[Word], xargs: Arguments | None = None) -> None:
        """Judge one simple command, `xargs` being the arguments of the one that would start it."""
        name, rest = words[0].source, words[1:]
        command = COMMANDS.get(name)
        if command is None:
            raise RefusalError(name, "this command is not allowed", _remedy(words[0].value))
        arguments = read_arguments(name, rest)
        if xargs is not None:
            _check_below_xargs(name, command, arguments, xargs)
        walks = _walks(command, arguments)
        self._globs(rest, walks=walks)
        for path in arguments.paths:
            self._path(path)
        if command.operands is Operands.COMMAND:
            self._xargs(rest, arguments)
        else:
            self._operands(name, command, arguments, walks=walks)

    def _operands(self, name: str, command: Command, arguments: Arguments, *, walks: bool) -> None:
        operands = arguments.operands
        match command.operands:
            case Operands.TEXT:
                return
            case Operands.TOPICS:
                self._removals(operands)
                return
            case Operands.PATTERN_PATHS if _PATTERN_OPTIONS.isdisjoint(arguments.options):
                operands = operands[1:]
            case Operands.NONE | Operands.ONE_PATH:
                _check_few(name, command, operands)
        for word in operands:
            self._path(word, walks=walks)
        if not operands and (command.reads_cwd or walks):
            self._path(Word(".", ".", None), walks=walks)

    def _path(self, word: Word, *, walks: bool = False) -> None:
        if word.pattern is None and word.value != "/dev/null":
            self._reads(self.cwd / word.value, word.source, walks=walks)

    def _reads(self, path: Path, shown: str, *, walks: bool) -> None:
        self._spend(1)
        resolved = self.roots.require(real_path(path, shown), shown)
        closed = self.roots.hidden_below(resolved) if walks else None
        if closed is not None:
            raise RefusalError(
                shown, f"it holds {closed}, which is closed to this run", "Name the directories beside it."
            )
        self.reads.append(resolved)

    def _spend(self, cost: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            raise RefusalError(
                "the command", f"it names over {MOST_PATHS} paths", "Split it into several calls."
            )

    def _globs(self, words: list[Word], *, walks: bool) -> None:
        """Judge what the shell may put in the place of each word, also where the command wants no path."""
        for word in words:
            if word.pattern is None:
                continue
            self._spend(_WILDCARD_COST)
            base = glob_base(word.pattern)
            self._reads(self.cwd / base, word.source, walks=False)
            for match in glob_matches(word.pattern, word.source, self.cwd):
                if not base and match.relative_to(self.cwd).parts[0].startswith("-"):
                    raise RefusalError(word.source, f"it matches {match.name}, an option", "Begin it with ./")
                self._reads(match, word.source, walks=walks)

    def _removals(self, operands: list[Word]) -> None:
        if not operands:
            raise RefusalError("rm", "it names no file", "Name the topic.")
        for word in operands:
            if word.pattern is not None:
                raise RefusalError(word.source, "rm takes no wildcard", "Name each topic.")
            match resolve_removal(word.value, self.cwd, self.memory_root):
                case Path() as entry:
                    self.removals.append(entry)
                case refused:
                    raise RefusalError(word.source, refused.reason, refused.remedy)

    def _xargs(self, words: list[Word], arguments: Arguments) -> None:
        own = words[: len(words) - len(arguments.operands)]
        if any(word.pattern is not None for word in own):
            raise RefusalError("xargs", "a wildcard among its options could name the command", _QUOTED)
        placeholder = arguments.options.get("-I")
        if placeholder is not None and placeholder not in PLACEHOLDERS:
            raise RefusalError(f"-I {placeholder}", "it could replace parts of the command", "Use -I {}.")
        if arguments.operands:
            self.command(arguments.operands, xargs=arguments)


def _remedy(name: str) -> str:
    if name in COMMANDS:
        return f"Write plainly {name}."
    return INSTEAD.get(name, f"The commands here are {', '.join(sorted(COMMANDS))}.")


def _walks(command: Command, arguments: Arguments) -> bool:
    return command.operands is Operands.EXPRESSION or not command.descends.isdisjoint(arguments.options)


def _check_few(name: str, command: Command, operands: list[Word]) -> None:
    most = 1 if command.operands is Operands.ONE_PATH else 0
    if len(operands) > most or any(word.pattern is not None for word in operands):
        told = "takes one literal path, as it writes to a second one" if most else "takes no operands"
        raise RefusalError(operands[-1].source, f"{name} {told}", "Leave the rest out.")


def _check_below_xargs(name: str, command: Command, arguments: Arguments, xargs: Arguments) -> None:
    """Refuse a command that the words arriving at run time could turn into one with an effect."""
    match command.under_xargs:
        case UnderXargs.HARMLESS:
            return
        case UnderXargs.AFTER_DASHES:
            if not arguments.dashes or "-I" in xargs.options:
                raise RefusalError(
                    f"xargs {name}", "its input could be options", f"Write xargs {name} -- for it."
                )
        case UnderXargs.NEVER:
            raise RefusalError(
                f"xargs {name}", f"{name} is not run on unknown words", f"Run {name} by itself."
            )
