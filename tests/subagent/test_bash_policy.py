"""SUB-6: what the static bash policy lets through, and what it says to everything else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pi_project_memory.actors.core.bash_table import (
    COMMANDS,
    CONSTRUCTS,
    INSTEAD,
    OPTION_REASONS,
    Operands,
    Value,
)
from pi_project_memory.actors.subagent.bash_policy import Allowed, Refused, check_command
from pi_project_memory.actors.subagent.path_policy import read_roots
from subagent.bash_corpus import ALLOWED, REFUSED, REMOVALS, World, make_world

VALUES = {Value.NUMBER: "3", Value.TEXT: "one", Value.PATH: "list", Value.JOINED: "auto"}
OPERANDS = {
    Operands.NONE: "",
    Operands.TEXT: " one two",
    Operands.PATHS: " a.txt",
    Operands.ONE_PATH: " a.txt",
    Operands.PATTERN_PATHS: " one a.txt",
    Operands.EXPRESSION: "",
    Operands.COMMAND: " cat",
    Operands.TOPICS: " M/a.md",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def _spellings(option: str, value: Value) -> Iterator[str]:
    if value in {Value.NONE, Value.JOINED}:
        yield option.replace("(", "\\(").replace(")", "\\)")
    if value is Value.JOINED or (value is not Value.NONE and option.startswith("--")):
        yield f"{option}={VALUES[value]}"
    if value not in {Value.NONE, Value.JOINED}:
        yield f"{option} {'{}' if option == '-I' else VALUES[value]}"


def _rows() -> Iterator[str]:
    for name, command in COMMANDS.items():
        operands = OPERANDS[command.operands]
        yield name + operands
        for option, value in command.options.items():
            yield from (f"{name} {spelling}{operands}" for spelling in _spellings(option, value))


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize("command", list(_rows()))
def test_every_row_of_the_table_is_allowed(world: World, command: str) -> None:
    assert isinstance(world.judge(command), Allowed)


@pytest.mark.req("SUB-6", "C36")
@pytest.mark.parametrize("command", ALLOWED)
def test_ordinary_reading_is_allowed_and_removes_nothing(world: World, command: str) -> None:
    judged = world.judge(command)

    assert isinstance(judged, Allowed), str(judged)
    assert judged.removals == ()


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize(("command", "topics"), REMOVALS)
def test_a_removal_names_its_topics(world: World, command: str, topics: tuple[str, ...]) -> None:
    judged = world.judge(command)

    assert isinstance(judged, Allowed), str(judged)
    assert judged.removals == tuple(world.memory / topic for topic in topics)


@pytest.mark.req("SUB-6", "SUB-3", "C36")
@pytest.mark.parametrize(
    ("command", "part", "reason"),
    [pytest.param(*row, id=row[0][:60]) for rows in REFUSED.values() for row in rows],
)
def test_a_trick_is_refused_with_the_part_and_the_reason(
    world: World, command: str, part: str, reason: str
) -> None:
    judged = world.judge(command)

    assert isinstance(judged, Refused), judged
    assert judged.part == world.command(part)
    assert reason in judged.reason
    assert judged.remedy


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize(("command", "option"), OPTION_REASONS)
def test_an_option_with_an_effect_is_refused_with_that_effect(
    world: World, command: str, option: str
) -> None:
    judged = world.judge(f"{command} {option} a.txt")

    assert isinstance(judged, Refused)
    assert (judged.part, OPTION_REASONS[command, option] in judged.reason) == (option, True)


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize("command", INSTEAD)
def test_a_command_people_try_is_told_what_to_do_instead(world: World, command: str) -> None:
    judged = world.judge(f"{command} a.txt")

    assert isinstance(judged, Refused)
    assert (judged.part, judged.remedy) == (command, INSTEAD[command])


@pytest.mark.req("SUB-6")
def test_every_construct_of_the_table_is_met_by_a_trick(world: World) -> None:
    told = {
        (judged.reason, judged.remedy)
        for rows in REFUSED.values()
        for command, _, _ in rows
        if isinstance(judged := world.judge(command), Refused)
    }

    assert {(f"{noun} is not allowed", remedy) for noun, remedy in CONSTRUCTS.values()} <= told


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize(
    ("command", "remedy"), [("\\cat x", "plainly cat"), ("diff a b", "are cat, cut, echo,")]
)
def test_a_command_that_is_not_allowed_is_told_which_are(world: World, command: str, remedy: str) -> None:
    judged = world.judge(command)

    assert isinstance(judged, Refused)
    assert remedy in judged.remedy


@pytest.mark.req("SUB-6")
def test_a_refusal_reads_as_part_reason_and_remedy(world: World) -> None:
    assert str(world.judge("cat `ls`")) == (
        "Refused: `ls`: a command substitution is not allowed. Run the inner command first and write its result out."
    )


@pytest.mark.req("SUB-6")
def test_the_reads_of_a_command_are_resolved_and_named_once(world: World) -> None:
    judged = world.judge("cat a.txt ./a.txt links/inside/c.txt; grep -r one sub; ls b.t*")

    assert isinstance(judged, Allowed)
    app = world.cwd
    assert judged.reads == (app / "a.txt", app / "sub/c.txt", app / "sub", app, app / "b.txt")


@pytest.mark.req("SUB-6", "SUB-3")
@pytest.mark.parametrize("command", ["grep -r one {}", "find {} -name x", "ls -R {}", "grep -rn one {}/h*"])
def test_a_walk_does_not_enter_a_directory_that_is_closed(world: World, command: str) -> None:
    roots = read_roots(project=[world.base], own=[world.memory], agent_dir=world.agent)

    judged = check_command(command.format(world.base), cwd=world.cwd, roots=roots, memory_root=world.memory)

    assert isinstance(judged, Refused)
    assert str(world.agent) in judged.reason


@pytest.mark.req("SUB-6", "SUB-3")
def test_a_directory_above_a_closed_one_may_be_listed(world: World) -> None:
    roots = read_roots(project=[world.base], own=[world.memory], agent_dir=world.agent)

    judged = check_command("ls ../..", cwd=world.cwd, roots=roots, memory_root=world.memory)

    assert isinstance(judged, Allowed)


@pytest.mark.req("SUB-6", "SUB-3")
@pytest.mark.parametrize("command", ["ls", "find -name x", "grep -r one", "ls *", "cat a.txt"])
def test_a_command_in_a_directory_outside_the_roots_reads_nothing(world: World, command: str) -> None:
    judged = check_command(command, cwd=world.outside, roots=world.roots, memory_root=world.memory)

    assert isinstance(judged, Refused)
    assert "outside" in judged.reason


@pytest.mark.req("SUB-6")
@pytest.mark.parametrize("name", ["-r", "-exec", "--output=x", "-o"])
@pytest.mark.parametrize(
    "command", ["sort *", "ls ?*", "grep one [!a]*", "find * -name x", "sort -*", "cat a* -[a-z]*"]
)
def test_a_wildcard_that_matches_an_option_is_refused(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / name).touch()

    judged = check_command(
        command,
        cwd=tmp_path,
        roots=read_roots(project=[tmp_path], own=[], agent_dir=tmp_path / "x"),
        memory_root=tmp_path,
    )

    assert isinstance(judged, Refused)


@pytest.mark.req("SUB-6")
def test_a_wildcard_behind_a_directory_cannot_match_an_option(world: World) -> None:
    assert isinstance(world.judge("sort ./dashes/* dashes/-*"), Allowed)


@pytest.mark.req("SUB-6")
def test_a_wildcard_with_very_many_matches_is_refused(tmp_path: Path) -> None:
    for number in range(1_001):
        (tmp_path / f"{number}.txt").touch()
    roots = read_roots(project=[tmp_path], own=[], agent_dir=tmp_path / "agent")

    judged = check_command("wc -l *.txt", cwd=tmp_path, roots=roots, memory_root=tmp_path)

    assert isinstance(judged, Refused)
    assert (judged.part, "1000 files" in judged.reason) == ("*.txt", True)


@pytest.mark.req("SUB-6", "SUB-2")
def test_removing_follows_the_links_of_a_topic(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    (world.memory / "alias.md").symlink_to("b.md")
    (world.memory / "leak.md").symlink_to(world.outside / "a.md")
    (world.memory / "index.md").symlink_to("MEMORY.md")
    (world.memory / "twin.md").hardlink_to(world.memory / "MEMORY.md")
    (world.memory / "away").symlink_to(world.outside)
    (world.memory / "plain.txt").symlink_to("b.md")
    (world.cwd / "topic.md").symlink_to(world.memory / "b.md")

    assert isinstance(alias := world.judge("rm M/alias.md"), Allowed)
    assert alias.removals == (world.memory / "alias.md",)
    for command, reason in {
        "rm M/leak.md": "outside the memory directory",
        "rm M/away/a.md": "outside the memory directory",
        "rm topic.md": "outside the memory directory",
        "rm M/plain.txt": "no memory file",
        "rm M/index.md": "index is never removed",
        "rm M/twin.md": "index is never removed",
    }.items():
        assert isinstance(judged := world.judge(command), Refused)
        assert reason in judged.reason


@pytest.mark.req("SUB-6")
@pytest.mark.real_time
def test_the_parser_is_loaded_by_the_first_command_only() -> None:
    script = "import sys; from pi_project_memory.actors.subagent import bash_policy; assert 'tree_sitter' not in sys.modules"

    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.req("SUB-6")
def test_a_relative_removal_starts_at_the_working_directory(world: World) -> None:
    judged = check_command(
        "rm a.md nested/c.md", cwd=world.memory, roots=world.roots, memory_root=world.memory
    )

    assert isinstance(judged, Allowed)
    assert judged.removals == (world.memory / "a.md", world.memory / "nested" / "c.md")
