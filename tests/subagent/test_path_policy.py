"""SUB-2 and SUB-3: what background tools may read, write and remove, on resolved paths."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from pi_project_memory.actors.ports.publish import publish_replace
from pi_project_memory.actors.subagent.path_policy import (
    ReadRoots,
    read_roots,
    resolve_read,
    resolve_removal,
    resolve_write,
)
from pi_project_memory.actors.subagent.refusal import Refusal


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    root = tmp_path / "memory"
    (root / "sub").mkdir(parents=True)
    (root / "MEMORY.md").write_text("- [a](a.md)\n", encoding="utf-8")
    (root / "a.md").write_text("a\n", encoding="utf-8")
    return root


def _reason(judged: Path | Refusal) -> str:
    assert isinstance(judged, Refusal), judged
    assert judged.remedy
    return judged.reason


def _fill(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x", encoding="utf-8")


@pytest.mark.req("SUB-3")
def test_the_longest_root_decides_and_an_excluded_one_wins_at_a_tie() -> None:
    roots = ReadRoots(
        allowed=(Path("/p"), Path("/p/agent/memory"), Path("/tie")),
        excluded=(Path("/p/agent"), Path("/p/agent/memory/sessions"), Path("/tie")),
    )

    permitted = {
        "/p": True,
        "/p/x": True,
        "/p/agent": False,
        "/p/agent/auth.json": False,
        "/p/agents": True,
        "/p/agent/memory": True,
        "/p/agent/memory/a.md": True,
        "/p/agent/memory/sessions/1.jsonl": False,
        "/tie/x": False,
        "/": False,
        "/other": False,
    }
    assert {path: roots.permits(Path(path)) for path in permitted} == permitted


@pytest.mark.req("SUB-3")
def test_the_extractor_reads_no_sessions_and_dream_does(tmp_path: Path) -> None:
    project, agent, scratch = tmp_path / "project", tmp_path / "agent", tmp_path / "scratch"
    memory, sessions = agent / "memory", project / ".sessions"
    extractor = read_roots(project=[project], own=[memory, scratch], agent_dir=agent, excluded=[sessions])
    dream = read_roots(project=[project], own=[memory, scratch, sessions], agent_dir=agent)

    assert not extractor.permits(sessions / "1.jsonl")
    assert dream.permits(sessions / "1.jsonl")
    assert extractor.hidden_below(project) == sessions
    assert dream.hidden_below(project) is None
    for roots in (extractor, dream):
        assert [roots.permits(path / "x") for path in (project, memory, scratch, agent)] == [
            *[True] * 3,
            False,
        ]


@pytest.mark.req("SUB-3")
def test_dream_reads_its_sessions_inside_the_agent_directory_and_nothing_else_there(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    dream = read_roots(project=[tmp_path], own=[agent / "sessions" / "p"], agent_dir=agent)

    assert dream.permits(agent / "sessions" / "p" / "1.jsonl")
    assert not dream.permits(agent / "sessions" / "q" / "1.jsonl")
    assert not dream.permits(agent / "auth.json")
    assert dream.hidden_below(tmp_path) == agent


@pytest.mark.req("SUB-3")
def test_a_project_inside_the_agent_directory_stays_closed(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    memory = agent / "project-memory" / "projects" / "p" / "memory"
    roots = read_roots(project=[agent / "project-memory"], own=[memory], agent_dir=agent)

    assert not roots.permits(agent / "project-memory" / "projects" / "q" / "memory" / "a.md")
    assert roots.permits(memory / "a.md")


@pytest.mark.req("SUB-3")
def test_roots_are_taken_by_their_real_paths(tmp_path: Path) -> None:
    (tmp_path / "real" / "agent").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    roots = read_roots(
        project=[tmp_path / "link"],
        own=[tmp_path / "link" / "agent" / "m"],
        agent_dir=tmp_path / "link" / "agent",
    )

    assert roots.permits(tmp_path / "real" / "x")
    assert not roots.permits(tmp_path / "real" / "agent" / "auth.json")
    assert roots.permits(tmp_path / "real" / "agent" / "m" / "a.md")


@pytest.mark.req("SUB-3")
@pytest.mark.parametrize("twin", ["AGENT", "Agent", unicodedata.normalize("NFD", "agént"), "agént", "AGÉNT"])
def test_an_excluded_directory_is_closed_in_every_spelling(twin: str) -> None:
    name = "agént" if "g\u00e9" in unicodedata.normalize("NFC", twin).casefold() else "agent"
    roots = ReadRoots(allowed=(Path("/p"),), excluded=(Path("/p") / name,))

    assert not roots.permits(Path("/p") / twin / "auth.json")


@pytest.mark.req("SUB-3")
def test_a_readable_directory_in_another_spelling_is_the_same_only_by_identity(tmp_path: Path) -> None:
    (tmp_path / "Project").mkdir()
    (tmp_path / "other" / "project").mkdir(parents=True)
    (tmp_path / "project").symlink_to("Project")
    roots = ReadRoots(allowed=(tmp_path / "Project", tmp_path / "other" / "Project"))

    assert roots.permits(tmp_path / "project" / "x")
    assert not roots.permits(tmp_path / "other" / "project" / "x")


@pytest.mark.req("SUB-3")
def test_reading_resolves_relative_paths_and_links(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    _fill(project, "a.txt", "sub/b.txt")
    _fill(outside, "secret.txt")
    (project / "leak.txt").symlink_to(outside / "secret.txt")
    (project / "away").symlink_to(outside)
    (project / "near").symlink_to("sub")
    (project / "loop").symlink_to("loop")
    roots = ReadRoots(allowed=(project,))

    assert resolve_read("a.txt", project, roots) == project / "a.txt"
    assert resolve_read("near/b.txt", project, roots) == project / "sub" / "b.txt"
    assert resolve_read("../a.txt", project / "sub", roots) == project / "a.txt"
    assert resolve_read("", project, roots) == project
    assert resolve_read("gone/new.txt", project, roots) == project / "gone" / "new.txt"
    for path in (
        "leak.txt",
        "away/secret.txt",
        "away/new.txt",
        "../outside/secret.txt",
        str(outside),
        "/etc/hostname",
    ):
        assert "outside the readable" in _reason(resolve_read(path, project, roots))
    assert "too many symbolic links" in _reason(resolve_read("loop", project, roots))


@pytest.mark.req("SUB-3")
def test_a_chain_of_links_is_followed_as_far_as_the_kernel_does(tmp_path: Path) -> None:
    _fill(tmp_path, "0")
    for number in range(1, 42):
        (tmp_path / str(number)).symlink_to(str(number - 1))

    assert resolve_read("40", tmp_path, ReadRoots((tmp_path,))) == tmp_path / "0"
    assert "too many symbolic links" in _reason(resolve_read("41", tmp_path, ReadRoots((tmp_path,))))


@pytest.mark.req("SUB-3")
def test_a_path_goes_up_as_pi_takes_it_before_links_are_followed(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside" / "deep"
    _fill(project, "a.txt")
    _fill(outside, "b.txt")
    (project / "away").symlink_to(outside)

    assert resolve_read("away/../a.txt", project, ReadRoots((project,))) == project / "a.txt"


@pytest.mark.req("SUB-3")
@pytest.mark.parametrize(
    "path", ["/proc/self/cwd/a.txt", "/dev/fd/0", "/dev/null", "/sys/kernel", "through/a.txt"]
)
def test_trees_of_the_machine_are_closed_even_below_a_root(tmp_path: Path, path: str) -> None:
    (tmp_path / "through").symlink_to("/proc/self/cwd")
    roots = read_roots(project=[Path("/")], own=[], agent_dir=tmp_path / "agent")

    assert "closed to this run" in _reason(resolve_read(path, tmp_path, roots))


@pytest.mark.req("SUB-3")
def test_a_refused_read_says_where_reading_is_possible(tmp_path: Path) -> None:
    refused = resolve_read("/etc/hostname", tmp_path, ReadRoots((tmp_path, Path("/srv/m"))))

    assert str(refused) == (
        f"Refused: /etc/hostname: it lies outside the readable directories. Read below {tmp_path}, /srv/m."
    )


@pytest.mark.req("SUB-1", "SUB-3")
def test_paths_mean_what_they_mean_to_pi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _fill(
        tmp_path,
        "a b.txt",
        "~",
        "@x",
        "x",
        "it\u2019s.txt",
        "at 1\u202fPM.png",
        "d/" + unicodedata.normalize("NFD", "é.txt"),
    )
    roots = ReadRoots((tmp_path,))

    meant = {
        "a\u00a0b.txt": "a b.txt",
        "@a b.txt": "a b.txt",
        "@x": "x",
        "@@x": "@x",
        "~/x": "x",
        "~": "",
        "@~/x": "x",
        "~x": "~x",
        "it's.txt": "it\u2019s.txt",
        "at 1 PM.png": "at 1\u202fPM.png",
        "d/é.txt": "d/" + unicodedata.normalize("NFD", "é.txt"),
        "d//./é2.txt": "d/é2.txt",
    }
    assert {path: resolve_read(path, tmp_path, roots) for path in meant} == {
        path: tmp_path / name for path, name in meant.items()
    }
    assert "URL" in _reason(resolve_read("file:///etc/hostname", tmp_path, roots))


@pytest.mark.req("SUB-3")
def test_a_file_that_pi_would_swap_for_another_is_not_read(tmp_path: Path) -> None:
    _fill(tmp_path, "a\u00a0b", "a b")
    (tmp_path / "link").symlink_to("a\u00a0b")

    assert "Pi would open another file" in _reason(resolve_read("link", tmp_path, ReadRoots((tmp_path,))))


@pytest.mark.req("SUB-2", "SUB-3")
@pytest.mark.parametrize("path", ["a\0.md", "a\ud83d.md"])
def test_a_character_that_no_path_holds_is_refused(memory: Path, path: str) -> None:
    for judged in (
        resolve_read(path, memory, ReadRoots((memory,))),
        resolve_write(path, memory, memory),
        resolve_removal(path, memory, memory),
    ):
        assert "no path can hold" in _reason(judged)


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize(
    "path",
    [
        "a.md",
        "MEMORY.md",
        "new.md",
        "sub/new.md",
        "x/y/z/new.md",
        "sub/MEMORY.md",
        "./sub/../a.md",
        "@a.md",
        "ü 日.md",
        "skills.md",
        "agents/../a.md",
        ".hidden.md",
        "memory.md",
        "a.md.md",
        "b" * 252 + ".md",
    ],
)
def test_memory_files_may_be_written(memory: Path, path: str) -> None:
    target = resolve_write(path, memory, memory)

    assert target == Path(os.path.normpath(memory / path.removeprefix("@")))


@pytest.mark.req("SUB-2")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../a.md", "outside the memory directory"),
        ("sub/../../a.md", "outside the memory directory"),
        ("/etc/a.md", "outside the memory directory"),
        ("../memory2/a.md", "outside the memory directory"),
        ("../MEMORY/a.md", "outside the memory directory"),
        ("", "no memory file"),
        (".", "no memory file"),
        ("sub", "no memory file"),
        ("a.MD", "no memory file"),
        ("a.Md", "no memory file"),
        ("a.txt", "no memory file"),
        ("a", "no memory file"),
        (".md", "no memory file"),
        ("sub/.md", "no memory file"),
        ("a.md~", "no memory file"),
        ("a．md", "no memory file"),
        (".git/a.md", "reserved"),
        (".GIT/a.md", "reserved"),
        ("agents/a.md", "reserved"),
        ("x/Skills/y/a.md", "reserved"),
        ("s\u212aills/a.md", "reserved"),
        ("\u017fkills/a.md", "reserved"),
        (".g\u200bit/a.md", "reserved"),
        ("node_modules/x/a.md", "reserved"),
        ("a\n.md", "control characters"),
        ("a\x7f.md", "control characters"),
        ("a\x85.md", "control characters"),
        ("x\u2028y/a.md", "control characters"),
        ("b" * 253 + ".md", "longer than 255"),
        ("日" * 85 + ".md", "longer than 255"),
        ("b" * 256 + "/a.md", "longer than 255"),
        ("a.md/b.md", "Not a directory"),
        ("folder.md", "no regular file"),
        ("pipe.md", "no regular file"),
        ("x/" * 2_100 + "a.md", "characters long"),
        ("file:///a.md", "URL"),
    ],
)
def test_nothing_else_may_be_written(memory: Path, path: str, reason: str) -> None:
    (memory / "folder.md").mkdir()
    os.mkfifo(memory / "pipe.md")
    (memory.parent / "memory2").mkdir()

    assert reason in _reason(resolve_write(path, memory, memory))


@pytest.mark.req("SUB-2")
def test_writing_starts_at_the_cwd_and_names_the_memory_directory_in_a_refusal(memory: Path) -> None:
    cwd = memory.parent / "project"

    assert resolve_write("../memory/a.md", cwd, memory) == memory / "a.md"
    assert resolve_write(str(memory / "new.md"), cwd, memory) == memory / "new.md"
    assert str(resolve_write("a.md", cwd, memory)) == (
        f"Refused: a.md: it lies outside the memory directory. Name a file below {memory}."
    )


@pytest.mark.req("SUB-2", "C72")
def test_links_are_resolved_at_every_level(memory: Path) -> None:
    outside = memory.parent / "outside"
    _fill(outside, "a.md")
    _fill(memory, "notes.txt", ".git/c.md")
    links: dict[str, Path | str] = {
        "leak.md": outside / "a.md",
        "away": outside,
        "text.md": "notes.txt",
        "hidden": ".git",
        "dangling.md": outside / "new.md",
        "loop.md": "loop.md",
        "one": "two",
        "two": outside,
        "alias.md": "a.md",
        "fresh.md": "sub/fresh.md",
        "near": "sub",
        "plain.txt": "a.md",
    }
    for name, target in links.items():
        (memory / name).symlink_to(target)

    allowed = {"alias.md": "a.md", "fresh.md": "sub/fresh.md", "near/b.md": "sub/b.md", "plain.txt": "a.md"}
    assert {path: resolve_write(path, memory, memory) for path in allowed} == {
        path: memory / target for path, target in allowed.items()
    }
    refused = {
        "leak.md": "outside",
        "away/a.md": "outside",
        "away/new.md": "outside",
        "one/a.md": "outside",
        "dangling.md": "outside",
        "text.md": "no memory file",
        "hidden/c.md": "reserved",
        "loop.md": "too many symbolic links",
    }
    for path, reason in refused.items():
        assert reason in _reason(resolve_write(path, memory, memory))


@pytest.mark.req("SUB-2")
def test_the_memory_root_may_be_a_link(memory: Path) -> None:
    (memory.parent / "link").symlink_to(memory)

    assert resolve_write("a.md", memory.parent / "link", memory.parent / "link") == memory / "a.md"
    assert resolve_write(str(memory / "a.md"), memory, memory.parent / "link") == memory / "a.md"


@pytest.mark.req("SUB-2")
def test_a_link_swapped_in_between_two_calls_is_seen_by_the_second(memory: Path) -> None:
    outside = memory.parent / "outside"
    _fill(outside, "b.md")
    first = resolve_write("sub/b.md", memory, memory)
    (memory / "sub").rmdir()
    (memory / "sub").symlink_to(outside)

    assert first == memory / "sub" / "b.md"
    assert "outside" in _reason(resolve_write("sub/b.md", memory, memory))
    assert "outside" in _reason(resolve_removal("sub/b.md", memory, memory))


@pytest.mark.req("SUB-2")
def test_overwriting_a_hard_link_leaves_its_other_name_alone(memory: Path) -> None:
    other = memory.parent / "other.txt"
    other.hardlink_to(memory / "a.md")

    target = resolve_write("a.md", memory, memory)
    assert isinstance(target, Path)
    publish_replace(str(target), b"new\n")

    assert (target.read_text(encoding="utf-8"), other.read_text(encoding="utf-8")) == ("new\n", "a\n")


@pytest.mark.req("SUB-2")
def test_a_root_that_does_not_exist_yet_can_be_judged(tmp_path: Path) -> None:
    root = tmp_path / "later" / "memory"

    assert resolve_write(str(root / "a.md"), tmp_path, root) == root / "a.md"
    assert "outside" in _reason(resolve_write(str(tmp_path / "later" / "a.md"), tmp_path, root))


@pytest.mark.req("SUB-2")
def test_a_removal_takes_a_path_as_the_kernel_does(memory: Path) -> None:
    deep = memory.parent / "elsewhere" / "deep"
    deep.mkdir(parents=True)
    (memory / "away").symlink_to(deep)

    assert resolve_removal("a.md", memory, memory) == memory / "a.md"
    assert "outside" in _reason(resolve_removal("away/../a.md", memory, memory))
    assert resolve_write("away/../a.md", memory, memory) == memory / "a.md"
    assert "no memory file" in _reason(resolve_removal("sub/..", memory, memory))
    assert "outside" in _reason(resolve_removal("@a.md", memory.parent, memory))
