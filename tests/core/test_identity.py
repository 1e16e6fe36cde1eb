"""Project keys and hashes, with JavaScript as the judge, and the layout that follows from them."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_oracle import ask_node
from pi_project_memory.actors.core.identity import (
    ProjectPaths,
    base36,
    collision_namespace,
    config_file,
    java_hash,
    path_hash,
    plain_namespace,
    project_key,
)

AGENT = "/home/mel/.pi/agent"

IDENTITY = """(root) => {
  let hash = 0;
  for (let at = 0; at < root.length; at += 1) hash = (Math.imul(31, hash) + root.charCodeAt(at)) | 0;
  const suffix = (hash >>> 0).toString(36);
  const plain = root.replace(/[^a-zA-Z0-9]/g, '-');
  const sha = require('crypto').createHash('sha256').update(root.normalize('NFC'), 'utf8').digest('hex');
  return [plain.length <= 200 ? plain : plain.slice(0, 200) + '-' + suffix, hash >>> 0, suffix, sha.slice(0, 24)];
}"""

ROOTS = [
    "/w/a-b",
    "/w/a_b",
    "/w/a.b",
    "/",
    "",
    "/w/\U0001f600",
    "/w/é",
    "/w/e\u0301",
    "/w/\u212b",
    "/w/한글/日本語",
    "/w/a b\tc\nd",
    "/w/ﬁ①Ａ٣",
    *("/" + "x" * (length - 1) for length in (199, 200, 201, 262, 5000)),
    "/" + "😀" * 99 + "x",
    "/" + "😀" * 100,
    "/" + "x" * 198 + "😀",
    *("/" + "y" * 220 + end for end in ("a", "b", "c", "😀")),
]


@pytest.mark.req("PATH-2", "PATH-3")
@pytest.mark.real_time
def test_keys_and_hashes_are_those_of_javascript():
    source = random.Random(7)
    roots = [*ROOTS, *("/w/" + "".join(source.choices("ab-_.é😀한/", k=230)) for _ in range(60))]
    answers = ask_node(IDENTITY, roots)
    ours = [[project_key(root), java_hash(root), base36(java_hash(root)), path_hash(root)] for root in roots]
    assert ours == answers
    assert any(java_hash(root) > 2**31 for root in roots if len(project_key(root)) > 200)


@pytest.mark.req("PATH-2", "C66")
def test_a_negative_hash_counts_as_unsigned():
    assert base36(-1772312554 & 0xFFFFFFFF) == "15px8uu"
    assert base36(0) == "0"
    assert base36(2**32 - 1) == "1z141z3"


@pytest.mark.req("PATH-2", "C66")
def test_the_key_is_cut_after_two_hundred_units():
    root = "/" + "x" * 199
    assert project_key(root) == "-" + "x" * 199
    assert project_key(root + "y") == "-" + "x" * 199 + "-" + base36(java_hash(root + "y"))
    assert project_key("/" + "😀" * 99 + "x") == "-" * 199 + "x"
    assert project_key(root + "1") != project_key(root + "2")


@pytest.mark.req("PATH-2")
@given(st.text())
def test_a_key_is_one_short_file_name_of_plain_letters(root: str):
    key = project_key(root)
    assert len(key) <= 208
    assert set(key) <= set("-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


@pytest.mark.req("PATH-3")
def test_hashes_are_taken_in_nfc():
    assert path_hash("/w/é") == path_hash(unicodedata.normalize("NFD", "/w/é"))
    assert path_hash("/w/é") != path_hash("/w/e")
    assert path_hash("/w/\udcff") != path_hash("/w/\udcfe")


@pytest.mark.req("PATH-3", "CFG-1")
def test_the_two_namespaces_and_the_configuration_file():
    plain = f"{AGENT}/project-memory/projects/-w-a-b"
    assert plain_namespace(AGENT, "/w/a_b") == plain_namespace(f"{AGENT}/", "/w/a.b") == plain
    assert collision_namespace(AGENT, "/w/a_b") == f"{plain}-{path_hash('/w/a_b')}"
    assert collision_namespace(AGENT, "/w/a_b") != collision_namespace(AGENT, "/w/a.b")
    assert len(path_hash("/w/a_b")) == 24
    assert config_file(AGENT) == f"{AGENT}/project-memory/config.json"


def paths(memory_dir: str, *, custom: bool) -> ProjectPaths:
    namespace = plain_namespace(AGENT, "/w/a")
    return ProjectPaths(AGENT, "/w/a", namespace, memory_dir, path_hash(memory_dir), custom)


@pytest.mark.req("PATH-4")
def test_the_default_layout():
    data = f"{AGENT}/project-memory"
    memory = f"{data}/projects/-w-a/memory"
    layout = paths(memory, custom=False)
    assert layout.data_dir == data
    assert layout.base_dir == layout.namespace_dir == f"{data}/projects/-w-a"
    assert layout.state_file == f"{data}/projects/-w-a/state.json"
    assert layout.dream_state_file == f"{data}/memory-roots/{path_hash(memory)}/state.json"
    assert layout.locks_dir == f"{data}/memory-roots/{path_hash(memory)}/locks"


@pytest.mark.req("PATH-4")
def test_the_custom_layout():
    data = f"{AGENT}/project-memory"
    layout = paths("/srv/notes", custom=True)
    store = f"{data}/projects/-w-a/stores/{path_hash('/srv/notes')}"
    assert (layout.base_dir, layout.state_file) == (store, f"{store}/state.json")
    assert layout.dream_state_file == f"{data}/memory-roots/{path_hash('/srv/notes')}/state.json"
    assert layout.locks_dir == f"{data}/memory-roots/{path_hash('/srv/notes')}/locks"
