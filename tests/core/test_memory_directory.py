"""Which configured memory directories are taken, and what is said about the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_project_memory.actors.core.memory_directory import (
    MemoryDirectory,
    configured_memory_directory,
    normalise,
)

HOME = "/home/mel"


@pytest.mark.req("CFG-5")
@pytest.mark.parametrize(
    ("configured", "path"),
    [
        ("/srv/notes", "/srv/notes"),
        ("/srv/notes/", "/srv/notes"),
        ("/srv//notes/./x/../", "/srv/notes"),
        ("/ab", "/ab"),
        ("/😀", "/😀"),
        ("~/ok/", "/home/mel/ok"),
        ("~/notes/pi-memory", "/home/mel/notes/pi-memory"),
        ("~/a/../b", "/home/mel/b"),
        ("~//etc", "/home/mel/etc"),
        ("~\\notes", "/home/mel/notes"),
        ("~/..hidden", "/home/mel/..hidden"),
        ("/a/.github/b", "/a/.github/b"),
        ("/a/.git/../b", "/a/b"),
        ("/a/x.git", "/a/x.git"),
        ("/srv/\u00e9", "/srv/\u00e9"),
        ("/srv/e\u0301", "/srv/e\u0301"),
        ("/srv/ with space ", "/srv/ with space "),
        ("/C:", "/C:"),
    ],
)
def test_valid_directories_are_expanded_and_normalised(configured: str, path: str):
    assert configured_memory_directory(configured, HOME) == MemoryDirectory(path)


@pytest.mark.req("CFG-5")
@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        ("./m", "neither an absolute path"),
        ("m", "neither an absolute path"),
        ("../m", "neither an absolute path"),
        (" /srv/notes", "neither an absolute path"),
        ("~", "neither an absolute path"),
        ("~mel/notes", "neither an absolute path"),
        ("~/", "below the home directory"),
        ("~/.", "below the home directory"),
        ("~/./", "below the home directory"),
        ("~/a/..", "below the home directory"),
        ("~/..", "below the home directory"),
        ("~/../", "below the home directory"),
        ("~/../mel2", "below the home directory"),
        ("~/a/../../b", "below the home directory"),
        ("~/..\\b", "below the home directory"),
        ("~\\..", "below the home directory"),
        ("~\\..\\b", "below the home directory"),
        ("/", "root directory"),
        ("//", "root directory"),
        ("/a", "shorter than three"),
        ("/a/", "shorter than three"),
        ("/abc/../d", "shorter than three"),
        ("/abc/..", "root directory"),
        ("/..", "root directory"),
        ("C:", "root of a drive"),
        ("c:\\", "root of a drive"),
        ("C:\\notes", "neither an absolute path"),
        ("/a/.GIT/b", "version control"),
        ("/a/.git", "version control"),
        ("~/.hg/notes", "version control"),
        ("/a/.Svn/b", "version control"),
        ("/a/.bzr", "version control"),
        ("/a/.jj/b", "version control"),
        ("/a/.sl/b", "version control"),
        ("/a/b\\.git\\c", "version control"),
        ("/a\0b", "null byte"),
        ("~/\0", "null byte"),
        ("/srv/\ud800", "no file name can hold"),
        ("/srv/x\udcff", "no file name can hold"),
    ],
)
@pytest.mark.req("C70")
def test_other_directories_fall_back_with_a_reason(configured: str, reason: str):
    answer = configured_memory_directory(configured, HOME)
    assert answer.path is None
    assert answer.reason is not None
    assert reason in answer.reason


@pytest.mark.req("CFG-5")
def test_the_default_is_no_finding():
    assert configured_memory_directory(None, HOME) == MemoryDirectory(None)


@pytest.mark.req("CFG-5")
@pytest.mark.parametrize("home", ["", "home", "~"])
def test_without_a_home_directory_nothing_is_below_it(home: str):
    assert configured_memory_directory("~/notes", home) == MemoryDirectory(
        None, "the home directory is not known"
    )
    assert configured_memory_directory("/srv/notes", home) == MemoryDirectory("/srv/notes")


@pytest.mark.req("CFG-5")
def test_the_home_directory_may_hold_bytes_that_are_not_utf8():
    assert configured_memory_directory("~/notes", "/home/\udcff").path == "/home/\udcff/notes"


@pytest.mark.req("CFG-5")
@given(st.text(alphabet="/\\.~aA:gGiItT \0\ud800", max_size=12), st.sampled_from([HOME, "", "/"]))
def test_a_path_that_passes_is_absolute_normal_and_not_the_root(configured: str, home: str):
    answer = configured_memory_directory(configured, home)
    assert (answer.path is None) == (answer.reason is not None)
    if answer.path is not None:
        assert answer.path.startswith("/")
        assert len(answer.path) >= 3
        assert normalise(answer.path) == answer.path
        assert ".git" not in answer.path.lower().replace("\\", "/").split("/")


@pytest.mark.req("CFG-5")
@pytest.mark.parametrize(
    ("path", "normal"),
    [
        *(
            ("", "."),
            (".", "."),
            ("./", "."),
            ("..", ".."),
            ("../..", "../.."),
            ("a/../..", ".."),
            ("a/..", "."),
        ),
        *(("/", "/"), ("//a//b/", "/a/b"), ("/../a", "/a"), ("/a/./b/../c", "/a/c"), ("../a/../b", "../b")),
    ],
)
def test_paths_are_normalised_by_their_text(path: str, normal: str):
    assert normalise(path) == normal
