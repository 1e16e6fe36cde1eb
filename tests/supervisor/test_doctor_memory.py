"""`doctor` on the memory of a project: where it lies, who may look into it, its index and its topics."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from doctor_kit import Clinic, Injury, findings, healthy, texts
from memory_files import FULL
from pi_project_memory.actors.core.config import Config
from pi_project_memory.actors.core.identity import ProjectPaths, collision_namespace, plain_namespace
from pi_project_memory.actors.ports import topic_files
from pi_project_memory.actors.ports.git import InMemoryGit, NoWorktree, Worktree
from pi_project_memory.supervisor.doctor.checks_directories import check_directories
from pi_project_memory.supervisor.doctor.checks_memory import check_memory
from pi_project_memory.supervisor.doctor.observations import Observation
from pi_project_memory.supervisor.doctor.project import check_identity, locate

pytestmark = pytest.mark.req("HOST-10")


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    made = Clinic(tmp_path)
    made.project.mkdir()
    return made


def examined(paths: ProjectPaths) -> list[Observation]:
    return [*check_directories(paths), *check_memory(Path(paths.memory_dir))]


def write(name: str, text: str) -> Injury:
    return lambda clinic, paths: clinic.write(Path(paths.memory_dir) / name, text)


def chmod(attribute: str, mode: int) -> Injury:
    return lambda _, paths: Path(getattr(paths, attribute)).chmod(mode)


def replace_by_link(attribute: str) -> Injury:
    def injure(clinic: Clinic, paths: ProjectPaths) -> None:
        place = Path(getattr(paths, attribute))
        place.rename(clinic.root / "elsewhere")
        place.symlink_to(clinic.root / "elsewhere")

    return injure


def replace_by_file(attribute: str) -> Injury:
    def injure(clinic: Clinic, paths: ProjectPaths) -> None:
        place = Path(getattr(paths, attribute))
        place.rename(clinic.root / "elsewhere")
        place.write_text("a file")

    return injure


def index_of(names: list[str]) -> str:
    return "".join(f"- [Topic]({name}) — {'x' * 60}\n" for name in names)


def long_index(clinic: Clinic, paths: ProjectPaths) -> None:
    names = [f"more-{number:03}.md" for number in range(205)]
    for name in names:
        clinic.write(Path(paths.memory_dir) / name, FULL)
    index = index_of([*names[:202], *(f"topic-{number:03}.md" for number in range(3)), *names[202:]])
    clinic.write(Path(paths.memory_dir) / "MEMORY.md", index)


def link_outside(clinic: Clinic, paths: ProjectPaths) -> None:
    secret = clinic.write(clinic.root / "secret.md", FULL)
    (Path(paths.memory_dir) / "leak.md").symlink_to(secret)


def dangling_index(_: Clinic, paths: ProjectPaths) -> None:
    index = Path(paths.memory_dir) / "MEMORY.md"
    index.unlink()
    index.symlink_to("nowhere.md")
    for topic in Path(paths.memory_dir).glob("topic-*.md"):
        topic.unlink()


def index_that_leads_out(clinic: Clinic, paths: ProjectPaths) -> None:
    index = Path(paths.memory_dir) / "MEMORY.md"
    index.rename(clinic.root / "index.md")
    index.symlink_to(clinic.root / "index.md")


INJURIES: dict[str, tuple[Injury, str, str, str]] = {
    "a line without a file": (
        lambda _, paths: (Path(paths.memory_dir) / "topic-001.md").unlink(),
        r"no file stands behind topic-001\.md",
        "MEMORY.md",
        "correct or remove these links",
    ),
    "a file without a line": (
        write("lost.md", FULL),
        r"no line points to lost\.md",
        "MEMORY.md",
        r"add one for each: - \[Title\]",
    ),
    "a file name that could be mistaken for a remedy": (
        write("a; b.md", FULL),
        r"no line points to a; b\.md",
        "MEMORY.md",
        r"add one for each: - \[Title\]",
    ),
    "prose in the index": (
        lambda clinic, paths: clinic.write(
            Path(paths.memory_dir) / "MEMORY.md", healthy(3)["MEMORY.md"] + "The user likes tea.\n"
        ),
        "lines that are no link pointers: 4",
        "MEMORY.md",
        "move what they say into topic files",
    ),
    "an index that leads out": (
        index_that_leads_out,
        "the index is not read: .*leads out",
        "MEMORY.md",
        "ls -l",
    ),
    "an index that leads nowhere": (
        dangling_index,
        "the index is a link to nothing",
        "MEMORY.md",
        "rm .*MEMORY.md",
    ),
    "a topic without a header": (
        write("topic-002.md", "just text\n"),
        r"topics without frontmatter, .*: topic-002\.md",
        "memory",
        "start each with name, description",
    ),
    "a topic with a header that is no YAML": (
        write("topic-002.md", FULL.replace("description: d", "description: a (b: c): d")),
        r"frontmatter that is not plain YAML, .*: topic-002\.md",
        "memory",
        "put values that hold a colon",
    ),
    "a link that leaves the directory": (
        link_outside,
        "a link leads out of the memory directory",
        "memory/leak.md",
        r"rm .*/leak\.md",
    ),
    "a memory directory that others look into": (
        chmod("memory_dir", 0o755),
        "others on this machine may look into the directory: its mode is 0755",
        "memory",
        "chmod 700 .*/memory",
    ),
    "a locks directory that others look into": (
        chmod("locks_dir", 0o750),
        "its mode is 0750",
        "locks",
        "chmod 700 .*/locks",
    ),
    "a locks directory that is a link": (
        replace_by_link("locks_dir"),
        "memory is off: a link stands where a directory must be",
        "locks",
        r"mv .*/locks .*/locks\.moved",
    ),
    "a locks directory that is a file": (
        replace_by_file("locks_dir"),
        "memory is off: a file stands where a directory must be",
        "locks",
        "mv ",
    ),
    "a namespace that is a link": (
        replace_by_link("namespace_dir"),
        "memory is off: a link stands where a directory must be",
        "-project",
        "mv ",
    ),
    "a state file that others read": (
        lambda clinic, paths: clinic.write(Path(paths.dream_state_file), "{}").chmod(0o644),
        "others on this machine may read the file: its mode is 0644",
        "state.json",
        r"chmod 600 .*/state\.json",
    ),
    "a state file that is a directory": (
        lambda _, paths: Path(paths.dream_state_file).mkdir(),
        "something else stands where a file must be",
        "state.json",
        "mv ",
    ),
}


@pytest.mark.parametrize("name", INJURIES)
def test_each_injury_is_one_finding_with_its_place_and_its_remedy(clinic: Clinic, name: str) -> None:
    injure, problem, place, remedy = INJURIES[name]
    paths = clinic.remember()
    assert findings(examined(paths)) == []
    injure(clinic, paths)
    before = clinic.tree()
    (found,) = findings(examined(paths))
    assert re.search(problem, found.problem)
    assert found.where.endswith(place)
    assert re.match(remedy, found.remedy)
    assert clinic.tree() == before


def test_entries_beyond_the_window_are_named(clinic: Clinic) -> None:
    paths = clinic.remember()
    long_index(clinic, paths)
    found = findings(examined(paths))
    names = [
        *(f"more-{number}.md" for number in range(200, 205)),
        *(f"topic-{number:03}.md" for number in range(3)),
    ]
    assert [problem.problem for problem in found] == [
        "only its first 200 of 208 lines are loaded",
        f"8 topics stand beyond what is loaded: {', '.join(names)}",
    ]
    assert "/memory dream" in found[1].remedy


def test_units_count_for_the_headroom_as_lines_do(clinic: Clinic) -> None:
    paths = clinic.remember()
    assert "MEMORY.md: 3 of 200 lines, 129 of 25,000 characters" in texts(examined(paths))
    clinic.write(Path(paths.memory_dir) / "MEMORY.md", healthy(3)["MEMORY.md"] + "\n" * 22_400)
    assert "only its first 200 of 22,403 lines" in findings(examined(paths))[0].problem.replace(
        "22403", "22,403"
    )
    clinic.write(Path(paths.memory_dir) / "MEMORY.md", healthy(3)["MEMORY.md"] + "\n" * 176)
    assert "179 of 200 lines" in texts(examined(paths))
    assert "nearly full" not in texts(examined(paths))
    clinic.write(Path(paths.memory_dir) / "MEMORY.md", healthy(3)["MEMORY.md"] + "\n" * 177)
    assert "180 of 200 lines" in texts(examined(paths))
    assert "nearly full" in texts(examined(paths))


def test_what_the_main_agent_and_editors_leave_is_no_alarm(clinic: Clinic) -> None:
    paths = clinic.remember(healthy(2))
    memory = Path(paths.memory_dir)
    (memory / "topic-000.md").chmod(0o644)
    (memory / "topic-001.md").write_bytes(b"\xef\xbb\xbf" + FULL.replace("\n", "\r\n").encode())
    (memory / "sub").mkdir(mode=0o755)
    (memory / ".git").mkdir()
    (memory / ".git" / "HEAD.md").write_text("reserved")
    (memory / "picture.png").write_bytes(b"\0")
    (memory / "link").symlink_to("topic-000.md")
    assert findings(examined(paths)) == []


def test_a_directory_of_the_agent_that_the_user_made_is_no_alarm(clinic: Clinic) -> None:
    paths = clinic.remember()
    clinic.data.chmod(0o755)
    assert findings(examined(paths)) == []


def test_a_custom_directory_may_be_open_or_a_link_and_is_told(clinic: Clinic) -> None:
    custom = clinic.root / "notes"
    (clinic.root / "real").mkdir(mode=0o755)
    custom.symlink_to(clinic.root / "real")
    paths = clinic.remember(healthy(1), custom=str(custom))
    seen = examined(paths)
    assert findings(seen) == []
    assert f"Others on this machine may look into {custom}" in texts(seen)


def test_a_directory_without_the_right_to_write_is_told(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = clinic.remember()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != paths.memory_dir and access(path, mode))
    (found,) = findings(check_directories(paths))
    assert (found.problem, found.where) == ("the directory cannot be read and written", paths.memory_dir)
    assert found.remedy == f"chmod u+rwx {paths.memory_dir}"


def test_what_belongs_to_another_user_is_told(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = clinic.remember()
    stranger = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: stranger)
    found = findings(check_directories(paths))
    assert {problem.problem for problem in found} == {f"it belongs to another user, number {stranger - 1}"}
    places = {problem.where for problem in found}
    assert {paths.memory_dir, paths.locks_dir, f"{paths.namespace_dir}/.project-root"} <= places
    assert {problem.remedy for problem in found} == {f"sudo chown -R $(id -u) {place}" for place in places}


def test_topics_that_cannot_be_read_are_named(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = clinic.remember()
    opened = os.open

    def refuse(path: object, *rest: int) -> int:
        if str(path).endswith("topic-001.md"):
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", refuse)
    (found,) = findings(check_memory(Path(paths.memory_dir)))
    assert found.problem == "topics cannot be read: topic-001.md"
    assert found.remedy == f"chmod u+r {paths.memory_dir}/topic-001.md"


@pytest.mark.parametrize(("bound", "value"), [("DEEPEST", 2), ("MOST_DIRECTORIES", 3), ("MOST_ENTRIES", 4)])
def test_bounds_of_the_walk_that_were_reached_are_told(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    paths = clinic.remember(
        {"MEMORY.md": index_of(["a/b/c/d.md"]), "a/b/c/d.md": FULL, "e.txt": "", "f.txt": ""}
    )
    assert findings(check_memory(Path(paths.memory_dir))) == []
    monkeypatch.setattr(topic_files, bound, value)
    problems = [found.problem for found in findings(check_memory(Path(paths.memory_dir)))]
    assert any(problem.startswith("not everything is seen: ") for problem in problems)


def test_more_topics_than_the_selector_sees_are_a_note(clinic: Clinic) -> None:
    paths = clinic.remember({name: text for name, text in healthy(201).items() if name != "MEMORY.md"})
    seen = examined(paths)
    assert findings(seen) == []
    assert "newest 200 topics; 1 are older" in texts(seen)
    assert "There is no MEMORY.md yet" in texts(seen)


def test_topics_without_a_description_are_a_note(clinic: Clinic) -> None:
    paths = clinic.remember()
    clinic.write(Path(paths.memory_dir) / "topic-001.md", "---\nname: n\n---\n")
    seen = examined(paths)
    assert findings(seen) == []
    assert "found by their names alone: topic-001.md" in texts(seen)


class TestIdentity:
    async def test_the_first_project_of_a_key_has_the_plain_name(self, clinic: Clinic) -> None:
        paths = clinic.remember()
        project = await locate(clinic.surroundings(), Config())
        assert project.paths == paths
        assert project.used
        assert findings(check_identity(project)) == []
        assert f"Memory directory (the default): {paths.memory_dir}" in texts(check_identity(project))

    async def test_a_project_whose_key_is_taken_is_told_by_whom(self, clinic: Clinic) -> None:
        root = str(clinic.project)
        namespace = Path(plain_namespace(str(clinic.agent), root))
        clinic.write(namespace / ".project-root", "/w/a_b\n")
        project = await locate(clinic.surroundings(), Config())
        assert not project.used
        paths = clinic.remember()
        project = await locate(clinic.surroundings(), Config())
        assert project.paths == paths
        assert paths.namespace_dir == collision_namespace(str(clinic.agent), root)
        seen = list(check_identity(project))
        assert findings(seen) == []
        assert "/w/a_b has the same key and came first" in texts(seen)

    async def test_a_namespace_that_names_nobody_here_is_a_finding(self, clinic: Clinic) -> None:
        root = str(clinic.project)
        clinic.write(Path(plain_namespace(str(clinic.agent), root)) / ".project-root", "/w/a_b\n")
        paths = clinic.remember()
        marker = clinic.write(Path(paths.namespace_dir) / ".project-root", "/w/changed\n")
        (found,) = findings(check_identity(await locate(clinic.surroundings(), Config())))
        assert "the namespace names another project, /w/changed" in found.problem
        assert found.where == str(marker)
        assert found.remedy == f"mv {paths.namespace_dir} {paths.namespace_dir}.moved"

    async def test_a_namespace_of_an_older_version_is_found(self, clinic: Clinic) -> None:
        namespace = Path(collision_namespace(str(clinic.agent), str(clinic.project)))
        clinic.write(namespace / ".project-root", f"{clinic.project}\n")
        clinic.write(namespace / "memory" / "MEMORY.md", "")
        project = await locate(clinic.surroundings(), Config())
        assert project.used
        assert project.paths.namespace_dir == str(namespace)

    async def test_a_custom_directory_is_told(self, clinic: Clinic) -> None:
        custom = str(clinic.root / "notes")
        paths = clinic.remember(healthy(1), custom=custom)
        project = await locate(clinic.surroundings(), Config(auto_memory_directory=custom))
        assert project.paths == paths
        assert f"Memory directory (chosen by autoMemoryDirectory): {custom}" in texts(check_identity(project))

    async def test_the_root_of_the_repository_is_the_project(self, clinic: Clinic) -> None:
        below = clinic.project / "src"
        below.mkdir()
        root = str(clinic.project)
        git = InMemoryGit({str(below): Worktree(root, f"{root}/.git")})
        project = await locate(replace(clinic.surroundings(), cwd=str(below), git=git), Config())
        assert project.paths.project_root == root

    async def test_why_git_names_no_root_is_told(self, clinic: Clinic) -> None:
        reason = "git is not installed, or not on PATH"
        git = InMemoryGit({str(clinic.project): NoWorktree(reason)})
        seen = list(check_identity(await locate(replace(clinic.surroundings(), git=git), Config())))
        assert f"The project is the directory itself: {reason}" in texts(seen)

    async def test_a_dangling_memory_directory_is_a_finding(self, clinic: Clinic) -> None:
        paths = clinic.remember({})
        Path(paths.memory_dir).rmdir()
        Path(paths.memory_dir).symlink_to("nowhere")
        project = await locate(clinic.surroundings(), Config())
        assert project.used
        (found,) = findings(check_directories(project.paths))
        assert (found.where, found.problem) == (
            paths.memory_dir,
            "memory is off: a link stands where a directory must be",
        )
