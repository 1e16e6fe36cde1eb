"""What background bash may run: commands, their reading options, and words for everything refused (SUB-6).

The table is the whole permission: a command or an option without a row is refused. An option takes a value
here only if it does so in GNU and in BSD tools; otherwise the value is judged as an operand, which is stricter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Value(Enum):
    """What an option takes: nothing, a value of some kind, or text only when joined by `=`."""

    NONE = "none"
    NUMBER = "number"
    TEXT = "text"
    PATH = "path"
    JOINED = "joined"


class Operands(Enum):
    """What the words beside the options are."""

    NONE = "none"
    TEXT = "text"
    PATHS = "paths"
    ONE_PATH = "one path"
    PATTERN_PATHS = "pattern, paths"
    EXPRESSION = "paths, expression"
    COMMAND = "command"
    TOPICS = "topics"


class UnderXargs(Enum):
    """Whether words that arrive at run time could turn the command into one with an effect."""

    HARMLESS = "harmless"
    AFTER_DASHES = "after --"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Command:
    """One allowed command.

    `options` maps the exact option to what it takes; `descends` names the options that walk whole trees;
    `reads_cwd` says that without a path the command reads the working directory; `counts` allows `-5`.
    """

    operands: Operands
    options: Mapping[str, Value]
    descends: frozenset[str] = frozenset()
    reads_cwd: bool = False
    counts: bool = False
    under_xargs: UnderXargs = UnderXargs.HARMLESS


def _options(
    flags: str = "", numbers: str = "", texts: str = "", paths: str = "", joined: str = ""
) -> dict[str, Value]:
    columns = ((flags, Value.NONE), (numbers, Value.NUMBER), (texts, Value.TEXT), (paths, Value.PATH))
    return {name: value for names, value in (*columns, (joined, Value.JOINED)) for name in names.split()}


COMMANDS: Mapping[str, Command] = {
    "cat": Command(
        Operands.PATHS,
        _options(
            "-A -b -e -E -n -s -t -T -u -v --number --number-nonblank --show-all --show-ends --show-tabs"
            " --show-nonprinting --squeeze-blank"
        ),
    ),
    "cut": Command(
        Operands.PATHS,
        _options(
            "-n -s -z --complement --only-delimited --zero-terminated",
            texts="-b -c -d -f --bytes --characters --delimiter --fields --output-delimiter",
        ),
    ),
    "echo": Command(Operands.TEXT, {}),
    "file": Command(
        Operands.PATHS,
        _options(
            "-0 -b -h -i -k -L -n -N -r --brief --dereference --keep-going --mime --mime-encoding --mime-type"
            " --no-dereference --no-pad --print0 --raw",
            texts="-F --separator",
        ),
        under_xargs=UnderXargs.AFTER_DASHES,
    ),
    "find": Command(
        Operands.EXPRESSION,
        _options(
            "( ) ! , -a -and -daystart -depth -d -empty -executable -false -ls -mount -nogroup -not -nouser -o -or"
            " -print -print0 -prune -quit -readable -true -writable -xdev",
            texts="-amin -atime -cmin -ctime -gid -group -ilname -iname -inum -ipath -iregex -iwholename -links"
            " -lname -maxdepth -mindepth -mmin -mtime -name -newermt -path -perm -printf -regex -regextype -size"
            " -type -uid -user -wholename -xtype",
            paths="-anewer -cnewer -newer -samefile",
        ),
        reads_cwd=True,
        under_xargs=UnderXargs.NEVER,
    ),
    "grep": Command(
        Operands.PATTERN_PATHS,
        _options(
            "-a -b -c -E -F -G -H -h -I -i -L -l -n -o -P -q -r -s -T -U -v -w -x -Z -z --basic-regexp --binary"
            " --byte-offset --count --extended-regexp --files-with-matches --files-without-match --fixed-strings"
            " --ignore-case --initial-tab --invert-match --line-number --line-regexp --no-filename"
            " --no-ignore-case --no-messages --null --null-data --only-matching --perl-regexp --quiet --recursive"
            " --silent --text --with-filename --word-regexp",
            numbers="-A -B -C -m --after-context --before-context --max-count",
            texts="-e --binary-files --exclude --exclude-dir --include --label --regexp",
            paths="-f --file",
            joined="--color --colour --context",
        ),
        descends=frozenset({"-r", "--recursive"}),
        counts=True,
    ),
    "head": Command(
        Operands.PATHS,
        _options(
            "-q -v -z --quiet --silent --verbose --zero-terminated",
            numbers="-c -n --bytes --lines",
        ),
        counts=True,
    ),
    "ls": Command(
        Operands.PATHS,
        _options(
            "-1 -A -a -B -b -c -C -d -F -f -g -h -i -k -l -m -N -n -o -p -Q -q -R -r -S -s -t -U -u -v -x -X"
            " --all --almost-all --author --directory --escape --file-type --full-time --group-directories-first"
            " --human-readable --ignore-backups --inode --literal --no-group --numeric-uid-gid --quote-name"
            " --recursive --reverse --si --size",
            texts="--format --ignore --indicator-style --quoting-style --sort --time --time-style --width",
            joined="--classify --color",
        ),
        descends=frozenset({"-R", "--recursive"}),
        reads_cwd=True,
    ),
    "pwd": Command(Operands.NONE, _options("-L -P")),
    "rm": Command(Operands.TOPICS, _options("-f"), under_xargs=UnderXargs.NEVER),
    "sort": Command(
        Operands.PATHS,
        _options(
            "-b -C -c -d -f -g -h -i -M -m -n -R -r -s -u -V -z --dictionary-order --general-numeric-sort"
            " --human-numeric-sort --ignore-case --ignore-leading-blanks --ignore-nonprinting --merge --month-sort"
            " --numeric-sort --random-sort --reverse --stable --unique --version-sort --zero-terminated",
            texts="-k -t --field-separator --key --sort",
            joined="--check",
        ),
        under_xargs=UnderXargs.AFTER_DASHES,
    ),
    "stat": Command(
        Operands.PATHS, _options("-f -L -t --dereference --file-system --terse", texts="-c --format --printf")
    ),
    "tail": Command(
        Operands.PATHS,
        _options(
            "-q -v -z --quiet --silent --verbose --zero-terminated",
            numbers="-c -n --bytes --lines",
        ),
        counts=True,
    ),
    "tr": Command(
        Operands.TEXT, _options("-C -c -d -s -t --complement --delete --squeeze-repeats --truncate-set1")
    ),
    "uniq": Command(
        Operands.ONE_PATH,
        _options(
            "-c -D -d -i -u -z --count --ignore-case --repeated --unique --zero-terminated",
            numbers="-f -s -w --check-chars --skip-chars --skip-fields",
            joined="--all-repeated --group",
        ),
        under_xargs=UnderXargs.NEVER,
    ),
    "wc": Command(
        Operands.PATHS,
        _options("-c -L -l -m -w --bytes --chars --lines --max-line-length --words"),
    ),
    "xargs": Command(
        Operands.COMMAND,
        _options(
            "-0 -r -t -x --exit --no-run-if-empty --null --verbose",
            numbers="-L -n -s --max-args --max-chars",
            texts="-d -I --delimiter",
            joined="--max-lines",
        ),
        under_xargs=UnderXargs.NEVER,
    ),
}

PLACEHOLDERS = frozenset({"{}", "%"})
"""What `xargs -I` may replace: words that are no part of a command or an option."""

_RUNS = "it runs another program"
_WRITES = "it writes a file"
_DELETES = "it deletes files"
_WAITS = "it never ends"
_LISTED = "it reads file names from a file, which cannot be checked beforehand"
_LINKS = "it follows symbolic links out of the readable directories"

OPTION_REASONS: Mapping[tuple[str, str], str] = {
    **{("find", name): _RUNS for name in ("-exec", "-execdir", "-ok", "-okdir")},
    **{("find", name): _WRITES for name in ("-fls", "-fprint", "-fprint0", "-fprintf")},
    **{("find", name): _LINKS for name in ("-L", "-follow")},
    **{("grep", name): _LINKS for name in ("-R", "--dereference-recursive")},
    **{("ls", name): _LINKS for name in ("-H", "-L", "--dereference")},
    **{("sort", name): _WRITES for name in ("-o", "--output", "-T", "--temporary-directory")},
    **{("tail", name): _WAITS for name in ("-f", "-F", "--follow", "--pid", "--retry")},
    **{("file", name): _LISTED for name in ("-f", "--files-from")},
    **{("file", name): _RUNS for name in ("-z", "-Z", "--uncompress")},
    ("file", "-C"): _WRITES,
    ("file", "--compile"): _WRITES,
    ("file", "-p"): "it changes access times",
    ("file", "--preserve-date"): "it changes access times",
    ("find", "-delete"): _DELETES,
    ("find", "-files0-from"): _LISTED,
    ("sort", "--compress-program"): _RUNS,
    ("sort", "--files0-from"): _LISTED,
    ("wc", "--files0-from"): _LISTED,
    ("xargs", "-a"): _LISTED,
    ("xargs", "--arg-file"): _LISTED,
    ("rm", "-r"): "it deletes whole directories",
    ("rm", "-R"): "it deletes whole directories",
    ("rm", "--recursive"): "it deletes whole directories",
}
"""Why an option that people try is refused; every other one is just not a reading option of the table."""

_BY_REMEDY: Mapping[str, str] = {
    "Give absolute paths instead of changing the directory.": "cd pushd popd",
    "Read with cat, head or tail and change memory files with the edit tool.": "sed awk gawk mawk ed ex vi vim nano",
    "Search with grep.": "rg ag ack egrep fgrep zgrep",
    "Show text with cat, head or tail.": "less more bat nl tac rev od xxd hexdump strings column fold",
    "Change memory files with the write and edit tools.": "cp mv tee touch mkdir dd ln truncate install patch",
    "Print with echo.": "printf",
    "List files with ls or find.": "tree dir fd fdfind locate",
    "Interpreters and programs are not run in the background; work with the file tools.": (
        "python python3 perl ruby node php lua sh bash zsh dash ksh fish eval exec source . env sudo nohup timeout"
        " time command builtin parallel watch make npm npx git gh curl wget ssh"
    ),
}
INSTEAD: Mapping[str, str] = {name: remedy for remedy, names in _BY_REMEDY.items() for name in names.split()}
"""What to do instead of a command that people try."""

_PLAINLY = "Write the arguments out literally."
_APART = "Run each command on its own, joined only by | ; && ||."
_BY_TOOL = "Change memory files with the write and edit tools."
REDIRECTION = (
    "a redirection other than 2>&1 or to /dev/null",
    "Give input files as arguments; write memory files with the write and edit tools.",
)
"""What a redirection is told that is not among the allowed ones."""


CONSTRUCTS: Mapping[str, tuple[str, str]] = {
    "command_substitution": (
        "a command substitution",
        "Run the inner command first and write its result out.",
    ),
    "process_substitution": ("a process substitution", "Use a pipe instead."),
    "simple_expansion": ("a variable", _PLAINLY),
    "expansion": ("a parameter expansion", _PLAINLY),
    "arithmetic_expansion": ("an arithmetic expansion", _PLAINLY),
    "brace_expression": ("a brace expansion", "Name each file."),
    "ansi_c_string": ("a $'…' string", "Use plain quotes."),
    "variable_assignment": ("an assignment", _PLAINLY),
    "variable_assignments": ("an assignment", _PLAINLY),
    "declaration_command": ("a declaration", _PLAINLY),
    "unset_command": ("a change of variables", _PLAINLY),
    "heredoc_redirect": ("a here-document", _BY_TOOL),
    "herestring_redirect": ("a here-string", "Use echo and a pipe."),
    "subshell": ("a subshell", _APART),
    "compound_statement": ("a group", _APART),
    "function_definition": ("a function", _APART),
    "negated_command": ("a negation", _APART),
    "test_command": ("a test", "Look with ls or stat."),
    "if_statement": ("an if statement", _APART),
    "for_statement": ("a loop", _APART),
    "c_style_for_statement": ("a loop", _APART),
    "while_statement": ("a loop", _APART),
    "case_statement": ("a case statement", _APART),
    **dict.fromkeys(("<", "<&", "<&-", "<<", ">|", ">&-"), REDIRECTION),
    "&": ("a background job", "Leave the & out."),
    "|&": ("|&", "Write 2>&1 | instead."),
}
"""Node types of the parse tree that people try, and what to do instead."""
