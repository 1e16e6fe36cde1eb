"""A command text as the words of its simple commands, or a refusal (SUB-6).

Two readers have to agree on the text. tree-sitter-bash parses it, and every node type that is not expected is
refused. The lexer here knows only the allowed subset, by the quoting rules of the shell; a word, an operator or
a comment that the parser sees at another place is refused as well. So neither reader's mistake is enough.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

from pi_project_memory.actors.core.bash_table import CONSTRUCTS, REDIRECTION
from pi_project_memory.actors.subagent.refusal import RefusalError

if TYPE_CHECKING:
    from tree_sitter import Language, Node

MOST_BYTES = 32_768
"""UTF-8 bytes of a command that is looked at."""

_PLAINLY = "Write it out in plain words, with quotes where needed."

_WORD_NODES = frozenset({"word", "number", "string", "raw_string", "concatenation"})
_INNER_NODES = frozenset({"program", "list", "pipeline", "redirected_statement", "command", "command_name"})
_LEAVES = frozenset({*("string_content", "comment", "file_redirect", "file_descriptor"), *('"', "$", "\n")})
_OPERATORS = frozenset({"|", ";", "&&", "||", ">", ">>", ">&", "&>", "&>>"})
_EXPECTED = _WORD_NODES | _INNER_NODES | _LEAVES | _OPERATORS

_END = r"(?=[ \t\n;|&]|\Z)"
_PIECE = rf"""
      '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\$`]|\\[^\n]|\$(?=["|)/.,]))*)"
    | \\(?P<escaped>[^\n])
    | (?P<plain>[^\s'"\\$`|&;<>(){{}}]+|\{{\}}{_END})
"""
_PIECES = re.compile(_PIECE, re.VERBOSE)
_TOKEN = re.compile(
    rf"""
      (?P<blank>(?:[ \t]+(?:\\\n)?)+)
    | (?P<newline>\n)
    | (?P<control>&&|\|\||;(?!&)|\|(?!&))
    | (?P<redirect>(?<![^ \t\n;|&])(?:(?:[12]?>>?|&>>?)[ \t]*/dev/null|[12]?>&[12]){_END})
    | (?P<comment>\#[^\n]*)
    | (?P<word>(?:{re.sub(r"[?]P<[a-z]+>", "?:", _PIECE)})+)
    """,
    re.VERBOSE,
)
_DOUBLE_ESCAPE = re.compile(r'\\(["\\$`])')
_GLOB_SPECIAL = re.compile(r"([\\*?\[])")
_REDIRECTION = re.compile(r"[0-9&]*[<>]+[&|]?[ \t]*[^\s;|]*")


@dataclass(frozen=True, slots=True)
class Word:
    """One argument: as written, after quote removal, and as a pattern.

    In `pattern` a backslash stands before each quoted `*`, `?`, `[` and backslash; it is None when the shell
    finds nothing to expand.
    """

    source: str
    value: str
    pattern: str | None


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    source: str
    span: tuple[int, int]


def simple_commands(command: str) -> list[list[Word]]:
    """Return the words of each simple command in order, one at least.

    Raises RefusalError for whatever is not understood.
    """
    _check_text(command)
    nodes = _expected_nodes(command)
    tokens = list(_tokens(command))
    commands = _grouped(tokens)
    if not _agree(tokens, nodes):
        raise RefusalError(command, "it is not clear where its words end", _PLAINLY)
    if not commands:
        raise RefusalError("the command", "it is empty", "Say what to run.")
    return commands


def _check_text(command: str) -> None:
    try:
        size = len(command.encode())
    except UnicodeEncodeError as error:
        raise RefusalError(
            "the command", "it holds half a surrogate pair", "Leave that character out."
        ) from error
    if size > MOST_BYTES:
        raise RefusalError(
            "the command", f"it is longer than {MOST_BYTES} bytes", "Split it into several calls."
        )
    for mark in command:
        if unicodedata.category(mark) == "Cc" and mark not in "\t\n":
            raise RefusalError(
                ascii(mark), "it is a control character", "Leave it out; lines end with a line feed."
            )


@cache
def _language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def _expected_nodes(command: str) -> list[Node]:
    """Parse `command` into its leaves, whole words among them; raises RefusalError for an unexpected node."""
    from tree_sitter import Parser

    leaves, unexpected = [], []
    waiting = [(Parser(_language()).parse(command.encode()).root_node, False)]
    while waiting:
        node, in_word = waiting.pop()
        if node.type not in _EXPECTED or node.is_missing:
            unexpected.append(node)
        is_word = node.type in _WORD_NODES
        if not in_word and (is_word or not node.children):
            leaves.append(node)
        waiting.extend((child, in_word or is_word) for child in reversed(node.children))
    if unexpected:
        raise _construct(next((node for node in unexpected if node.type in CONSTRUCTS), unexpected[0]))
    return leaves


def _construct(node: Node) -> RefusalError:
    part = (node.text or b"").decode().strip() or "the command"
    noun, remedy = CONSTRUCTS.get(node.type, (None, _PLAINLY))
    return RefusalError(part, f"{noun} is not allowed" if noun else "it is not understood as bash", remedy)


def _tokens(command: str) -> Iterator[_Token]:
    byte_at = [0, *accumulate(len(mark.encode()) for mark in command)]
    position = 0
    while position < len(command):
        match = _TOKEN.match(command, position)
        if match is None:
            raise _unreadable(command, position)
        position = match.end()
        yield _Token(str(match.lastgroup), match[0], (byte_at[match.start()], byte_at[position]))


def _unreadable(command: str, position: int) -> RefusalError:
    mark = command[position]
    reason, remedy = _UNREADABLE.get(
        " " if mark.isspace() else mark, ("it is not understood as bash", _PLAINLY)
    )
    line = command[position:].partition("\n")[0]
    redirection = _REDIRECTION.match(line)
    return RefusalError(redirection[0] if redirection else line, reason, remedy)


def _grouped(tokens: list[_Token]) -> list[list[Word]]:
    commands: list[list[Word]] = [[]]
    for token in tokens:
        match token.kind:
            case "word":
                commands[-1].append(_word(token.source))
            case "control" | "newline":
                commands.append([])
    return [words for words in commands if words]


def _word(source: str) -> Word:
    value = pattern = ""
    expands = False
    for piece in _PIECES.finditer(source):
        text = _unquoted(piece)
        value += text
        if piece.lastgroup == "plain":
            _check_tilde(source, text, first=piece.start() == 0)
            expands = expands or not set("*?[").isdisjoint(text)
            pattern += text
        else:
            pattern += _GLOB_SPECIAL.sub(r"\\\1", text)
    return Word(source, value, pattern if expands else None)


def _unquoted(piece: re.Match[str]) -> str:
    text = piece[str(piece.lastgroup)]
    return _DOUBLE_ESCAPE.sub(r"\1", text) if piece.lastgroup == "double" else text


def _check_tilde(source: str, text: str, *, first: bool) -> None:
    if (first and text.startswith("~")) or "=~" in text or ":~" in text:
        raise RefusalError(source, "the shell would replace its ~", "Give the absolute path.")


def _agree(tokens: list[_Token], nodes: list[Node]) -> bool:
    """Tell whether lexer and parser see the same words, control operators and comments outside redirections."""
    redirected = {at for token in tokens if token.kind == "redirect" for at in range(*token.span)}
    spans = [token.span for token in tokens if token.kind in _COMPARED]
    parsed = [(node.start_byte, node.end_byte) for node in nodes if node.type not in _EMPTY]
    return spans == [span for span in parsed if span[0] not in redirected]


_COMPARED = frozenset({"word", "control", "comment"})
_EMPTY = frozenset({"\n", "program"})

_BRACES = ("the shell would expand its braces", "Name each file, or put the braces in quotes.")
_UNREADABLE = {
    "'": ("its quote is not closed", "Close the quote."),
    '"': ("what stands in its double quotes is not literal", "Use single quotes."),
    " ": ("it begins with a space that the shell does not take for one", "Use plain spaces."),
    "$": ("an unquoted $ is not allowed", "Put it in single quotes."),
    "\\": ("a backslash ends the line without a space before it", "Write the command in one line."),
    **dict.fromkeys("<>&", (f"{REDIRECTION[0]} is not allowed", REDIRECTION[1])),
    **dict.fromkeys("{}", _BRACES),
}
"""Why the lexer cannot go on at a character, and what to do instead."""
