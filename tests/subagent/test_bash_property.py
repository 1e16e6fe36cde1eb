"""SUB-6 against the real bash: it passes on the words that were judged, and nothing changes but named topics."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st

from pi_project_memory.actors.core.bash_table import COMMANDS, Operands, Value
from pi_project_memory.actors.subagent.bash_policy import Allowed
from pi_project_memory.actors.subagent.bash_words import simple_commands
from pi_project_memory.actors.subagent.refusal import RefusalError
from subagent.bash_corpus import ALLOWED, CANARY, REFUSED, REMOVALS, World, make_world, snapshot

BASH = shutil.which("bash") or "bash"
BOUNDED = settings(
    deadline=None, max_examples=60, phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
)

FRAGMENTS = (
    *(
        "a",
        "b",
        "ls",
        "rm",
        "-o",
        "--",
        ".",
        "..",
        "/",
        "2",
        "=",
        "x=",
        "~",
        "%",
        "^",
        "@",
        ",",
        ":",
        "é",
        "日",
    ),
    *(
        "'",
        '"',
        "'b c'",
        '"d e"',
        "''",
        '"$"',
        "\\",
        "\\ ",
        "\\'",
        '\\"',
        "\\\\",
        "\\\n",
        "$",
        "`",
        "$'",
        "$(",
    ),
    *(
        " ",
        "\t",
        "\n",
        "\u00a0",
        "\u3000",
        "#",
        ";",
        "|",
        "||",
        "&&",
        "&",
        "|&",
        ";;",
        "(",
        ")",
        "{",
        "}",
        "{}",
    ),
    *(">", ">>", "<", "2>", "2>&1", ">/dev/null", " 2>/dev/null ", "&>/dev/null", "*", "?", "[", "]", "[a]"),
    *("!", "=~", "if", "then", "time", "do", "[[", "]]", "<<", "<<<"),
)
"""What shell texts are made of, and what readers of shell texts stumble over."""

WORDS = (
    *(
        "a.txt",
        "b.txt",
        "x y.txt",
        "list",
        "sub",
        "sub/deep",
        ".",
        "..",
        "../..",
        "links",
        "links/secret.txt",
    ),
    *(
        "links/up/secret.txt",
        "links/inside/c.txt",
        "dashes/-o",
        "{b}.txt",
        "O/secret.txt",
        "A/auth.json",
        "*",
    ),
    *(
        "M/a.md",
        "M/MEMORY.md",
        "M/nested",
        "-o",
        "-",
        "--",
        "one",
        "out",
        "/dev/null",
        "links/loop",
        "-delete",
    ),
    *(
        "links/up/../outside/secret.txt",
        "sub/../links/up/deep/secret.txt",
        "W/a.txt",
        "[ab].txt",
        "s*/*",
        "links/*",
    ),
)
RISKS = (
    "-o out",
    "--output=out",
    "-delete",
    "-exec rm {} +",
    "-fprint out",
    "-R",
    "-L",
    "-f list",
    "-I{}",
    "-T .",
)


def _quoted(word: str) -> st.SearchStrategy[str]:
    return st.sampled_from([word, word, f"'{word}'", f'"{word}"', word.replace(" ", "\\ ")])


def _option(name: str) -> st.SearchStrategy[str]:
    values = {Value.NUMBER: ["3"], Value.TEXT: ["one", "'*.txt'"], Value.PATH: ["list", "O/secret.txt"]}
    spelled = [
        f"{option} {value}".strip()
        for option, kind in COMMANDS[name].options.items()
        for value in values.get(kind, [""])
    ]
    return st.sampled_from([option.replace("(", "\\(").replace(")", "\\)") for option in spelled] or ["-n"])


@st.composite
def _simple(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*COMMANDS, "rm", "rm"]))
    options = draw(st.lists(_option(name), max_size=2))
    risks = draw(st.lists(st.sampled_from(RISKS), max_size=1)) if draw(st.integers(0, 3)) == 0 else []
    words = draw(st.lists(st.sampled_from(WORDS).flatmap(_quoted), max_size=3))
    tail = draw(st.sampled_from(["", "", " 2>&1", " 2>/dev/null", " >/dev/null", " > out"]))
    inner = "cat" if COMMANDS[name].operands is Operands.COMMAND else ""
    return " ".join(filter(None, [name, *options, *risks, inner, *words])) + tail


COMPOSED = st.lists(_simple(), min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([" | ", "; ", " && ", " || ", "\n"]).map(lambda joint: joint.join(parts))
)
TORN = st.tuples(
    st.sampled_from(["ls ", "cat ", "echo "]), st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=10)
).map(lambda drawn: drawn[0] + "".join(drawn[1]))


def _run(command: str, cwd: Path, path: str) -> subprocess.CompletedProcess[bytes]:
    environment = {"PATH": path, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [BASH, "-c", command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )


def _check_harmless(world: World, text: str) -> bool:
    """Run `text` if it is allowed, and compare the world before and after; tell whether it ran."""
    judged = world.judge(text)
    if not isinstance(judged, Allowed):
        return False
    before = snapshot(world.base)
    done = _run(world.command(text), world.cwd, os.environ["PATH"])
    after = snapshot(world.base)

    removed = {str(topic) for topic in judged.removals}
    parents = {str(topic.parent) for topic in judged.removals}
    timeless = {
        path: (*entry[:2], 0, entry[3]) if path in parents else entry for path, entry in before.items()
    }
    kept = {path: (*entry[:2], 0, entry[3]) if path in parents else entry for path, entry in after.items()}
    assert kept == {path: entry for path, entry in timeless.items() if path in after or path not in removed}
    if "xargs" not in text:
        assert CANARY.encode() not in done.stdout + done.stderr
    return True


@pytest.fixture(scope="module")
def shadows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of programs under the names of the table that only write down what they were given."""
    folder = tmp_path_factory.mktemp("shadows")
    for name in COMMANDS:
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nprintf \'%s\\0\' "$#" {name} "$@" >> {folder}/log\n', encoding="utf-8"
        )
        program.chmod(0o755)
    return folder


def _seen(shadows: Path, command: str, cwd: Path) -> tuple[list[list[str]], bytes]:
    """Return the words of each command that bash starts for `command`, in no order, and its complaints."""
    log = shadows / "log"
    log.write_bytes(b"")
    done = _run(f"enable -n echo pwd\nset -f\n{command}", cwd, str(shadows))
    fields = log.read_bytes().decode().split("\0")[:-1]
    seen = []
    while fields:
        count = int(fields[0])
        seen.append(fields[1 : count + 2])
        fields = fields[count + 2 :]
    return seen, done.stderr


def _words(command: str) -> list[list[str]] | None:
    try:
        return [[word.value for word in words] for words in simple_commands(command)]
    except RefusalError:
        return None


@pytest.mark.req("SUB-6")
@pytest.mark.real_time
@BOUNDED
@given(texts=st.lists(TORN, min_size=40, max_size=40))
def test_bash_passes_on_exactly_the_words_that_were_judged(
    shadows: Path, tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    cwd = tmp_path_factory.getbasetemp()
    for text in texts:
        judged = _words(text)
        if judged is None or any(words[0] not in COMMANDS for words in judged):
            continue
        seen, complaints = _seen(shadows, text, cwd)
        started_all = "&&" not in text and "||" not in text
        assert complaints == b""
        assert all(words in judged for words in seen)
        assert not started_all or sorted(seen) == sorted(judged)


@pytest.mark.req("SUB-6")
@pytest.mark.real_time
def test_bash_passes_on_the_words_of_the_corpus(shadows: Path, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    for text in (*ALLOWED, *(text for text, _ in REMOVALS)):
        judged = _words(world.command(text))
        seen, complaints = _seen(shadows, world.command(text), world.cwd)

        assert complaints == b""
        assert judged is not None
        assert seen
        assert all(words in judged for words in seen)


@pytest.mark.req("SUB-6", "SUB-3")
@pytest.mark.real_time
@BOUNDED
@given(texts=st.lists(COMPOSED, min_size=6, max_size=6))
def test_an_allowed_command_changes_nothing_but_the_topics_it_names(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    world = make_world(tmp_path_factory.mktemp("run"))
    for text in texts:
        event("ran" if _check_harmless(world, text) else "refused")


@pytest.mark.req("SUB-6", "C36")
@pytest.mark.real_time
def test_the_corpus_runs_without_an_effect(tmp_path: Path) -> None:
    world = make_world(tmp_path)

    assert all(_check_harmless(world, text) for text in ALLOWED)
    assert not any(_check_harmless(world, text) for rows in REFUSED.values() for text, _, _ in rows)


@pytest.mark.req("SUB-6")
@pytest.mark.real_time
@pytest.mark.parametrize(("command", "topics"), REMOVALS)
def test_a_removal_takes_the_named_topics_away(tmp_path: Path, command: str, topics: tuple[str, ...]) -> None:
    world = make_world(tmp_path)

    assert _check_harmless(world, command)
    assert not any((world.memory / topic).exists() for topic in topics)
