"""Where the tools of a background run may read, write and remove, judged on resolved paths (SUB-2, SUB-3).

A path is judged at the moment of the call: call these functions right before the effect and hand on the
path that they return, not the text that came in.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.actors.ports.topic_files import INDEX_NAME, RESERVED
from pi_project_memory.actors.subagent.real_paths import PER_PROCESS, plain_path_text, real_path, same_file
from pi_project_memory.actors.subagent.refusal import Refusal, RefusalError

_MACHINE = (PER_PROCESS, Path("/dev"), Path("/sys"))
_LONGEST_NAME = 255
_UNPRINTABLE = frozenset({"Cc", "Zl", "Zp"})
_PI_SPACES = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_SWAPPED = ("Pi would open another file by that name", "Show it with cat in bash.")
_BEFORE_AM_PM = re.compile(r" (AM|PM)\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadRoots:
    """Real paths of readable and of excluded trees: the longest that holds a path decides, at a tie excluded.

    Excluded trees match without regard to case and Unicode form, since some file systems take these for the
    same name; readable trees match exactly or, failing that, by the identity of the directory.
    """

    allowed: tuple[Path, ...]
    excluded: tuple[Path, ...] = ()

    def permits(self, path: Path) -> bool:
        """Tell whether the resolved `path` may be read."""
        allowed = max((len(root.parts) for root in self.allowed if _holds(root, path)), default=0)
        excluded = max((len(root.parts) for root in self.excluded if _shadows(root, path)), default=0)
        return allowed > excluded

    def hidden_below(self, path: Path) -> Path | None:
        """Return an excluded tree that a walk from the resolved `path` would enter."""
        return next((root for root in self.excluded if _shadows(path, root)), None)

    def require(self, path: Path, shown: str) -> Path:
        """Return the resolved `path` if it may be read; raises RefusalError, naming it as `shown`."""
        if self.permits(path):
            return path
        closed = any(_shadows(root, path) for root in self.excluded)
        where = "in a directory closed to this run" if closed else "outside the readable directories"
        raise RefusalError(shown, f"it lies {where}", f"Read below {', '.join(map(str, self.allowed))}.")


def read_roots(
    *, project: Iterable[Path], own: Iterable[Path], agent_dir: Path, excluded: Iterable[Path] = ()
) -> ReadRoots:
    """Build the roots of one run from absolute paths that may be links or missing (SUB-3).

    `project`: project root and worktree, left out where they lie inside `agent_dir`. `own`: memory root,
    scratch and, for dream, the session directory, readable inside `agent_dir` too. `excluded`: for the
    extractor the session directory. Raises RefusalError for a loop of symbolic links.
    """
    agent = real_path(agent_dir)
    outside = (root for root in map(real_path, project) if not _shadows(agent, root))
    allowed = dict.fromkeys((*outside, *map(real_path, own)))
    return ReadRoots(tuple(allowed), (agent, *map(real_path, excluded), *_MACHINE))


def resolve_read(path: str, cwd: Path, roots: ReadRoots) -> Path | Refusal:
    """Return the real path that Pi's `read`, `find` or `grep` would open for `path`, if it may be read."""
    try:
        target = _opened_by_pi(path, cwd)
        _require(_opened_by_pi(str(target), cwd) == target, path, *_SWAPPED)
        return roots.require(target, path)
    except RefusalError as refused:
        return refused.refusal


def resolve_write(path: str, cwd: Path, memory_root: Path) -> Path | Refusal:
    """Return the real path of the memory file that `write` or `edit` may publish for `path`.

    A file with several hard links is accepted: publishing renames a new file into place, so its other names
    keep the old content.
    """
    try:
        target = real_path(_pi_path(path, cwd), path)
        _require_memory_file(target, real_path(memory_root), path)
    except RefusalError as refused:
        return refused.refusal
    return target


def resolve_removal(path: str, cwd: Path, memory_root: Path) -> Path | Refusal:
    """Return the directory entry of the topic that `rm` would remove; `path` is as the shell passes it.

    The entry and, if it is a link, its target must both be topics.
    """
    try:
        root = real_path(memory_root)
        named = cwd / plain_path_text(path)
        entry = real_path(named.parent, path) / named.name
        for file in (entry, real_path(entry, path)):
            _require_memory_file(file, root, path)
            _require(not _is_index(file, root), path, "the index is never removed", "Edit its lines instead.")
    except RefusalError as refused:
        return refused.refusal
    return entry


def _pi_path(path: str, cwd: Path) -> str:
    """Return the absolute path that Pi's file tools make of their `path` argument."""
    plain = _PI_SPACES.sub(" ", plain_path_text(path)).removeprefix("@")
    if plain.startswith("file://"):
        raise RefusalError(path, "it is a URL", "Give the plain path.")
    if plain == "~" or plain.startswith("~/"):
        plain = f"{Path.home()}{plain[1:]}"
    return "/" + os.path.normpath(cwd / plain).lstrip("/")


def _opened_by_pi(text: str, cwd: Path) -> Path:
    """Return the real path of the spelling under which Pi's `read` finds a file, else of `text` itself."""
    path = _pi_path(text, cwd)
    decomposed = unicodedata.normalize("NFD", path)
    spellings = (
        *(path, _BEFORE_AM_PM.sub("\u202f\\1.", path), decomposed),
        *(path.replace("'", "\u2019"), decomposed.replace("'", "\u2019")),
    )
    return real_path(next(filter(os.path.exists, spellings), path), text)


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _shadows(root: Path, path: Path) -> bool:
    return _folded("/".join(path.parts[: len(root.parts)])) == _folded("/".join(root.parts))


def _holds(root: Path, path: Path) -> bool:
    if path.is_relative_to(root):
        return True
    return _shadows(root, path) and same_file(Path(*path.parts[: len(root.parts)]), root)


def _require(condition: bool, shown: str, reason: str, remedy: str) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise RefusalError(shown, reason, remedy)


def _require_memory_file(target: Path, root: Path, shown: str) -> None:
    _require(
        _holds(root, target), shown, "it lies outside the memory directory", f"Name a file below {root}."
    )
    names = target.parts[len(root.parts) :]
    for kept, reason, remedy in _NAME_RULES:
        _require(kept(names), shown, reason, remedy)
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise RefusalError(shown, f"{error.strerror}", "Choose another path.") from error
    _require(stat.S_ISREG(mode), shown, "it is there and is no regular file", "Choose another name.")


def _is_index(file: Path, root: Path) -> bool:
    return file == root / INDEX_NAME or same_file(file, root / INDEX_NAME)


def _is_reserved(name: str) -> bool:
    return _folded("".join(mark for mark in name if unicodedata.category(mark) != "Cf")) in RESERVED


_NAME_RULES: tuple[tuple[Callable[[tuple[str, ...]], bool], str, str], ...] = (
    (
        lambda names: all(unicodedata.category(mark) not in _UNPRINTABLE for mark in "".join(names)),
        "its name holds control characters or line breaks",
        "Use letters, digits and dashes.",
    ),
    (
        lambda names: all(len(os.fsencode(name)) <= _LONGEST_NAME for name in names),
        f"a name in it is longer than {_LONGEST_NAME} bytes",
        "Choose a shorter name.",
    ),
    (
        lambda names: not any(map(_is_reserved, names[:-1])),
        f"{', '.join(sorted(RESERVED))} are reserved directories",
        "Choose another directory.",
    ),
    (
        lambda names: bool(names) and names[-1].endswith(".md") and names[-1] != ".md",
        "it is no memory file",
        "Memory files have a name that ends in lowercase .md.",
    ),
)
"""What the parts of a path below the memory root must be, and what a path that is not is told."""
