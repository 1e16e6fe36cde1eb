"""Who a project is, and where its memory lies on disk: names alone, nothing is looked up (PATH-2 to PATH-4)."""

from __future__ import annotations

import hashlib
import re
import struct
import unicodedata
from string import ascii_lowercase, digits

from msgspec import Struct

LONGEST_KEY = 200
"""UTF-16 units of a project key before it is shortened."""

_UNSAFE = re.compile("[^a-zA-Z0-9]")
_BASE36 = digits + ascii_lowercase


def project_key(root: str) -> str:
    """Return the directory name of the project at `root`; different roots may share one.

    Each UTF-16 unit outside A-Z, a-z and 0-9 becomes a dash; beyond 200 units a hash of the root follows.
    """
    key = _UNSAFE.sub(lambda match: "--" if match[0] > "\uffff" else "-", root)
    if len(key) <= LONGEST_KEY:
        return key
    return f"{key[:LONGEST_KEY]}-{base36(java_hash(root))}"


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`, as an unsigned 32-bit number."""
    raw = text.encode("utf-16-le", "surrogatepass")
    result = 0
    for (unit,) in struct.iter_unpack("<H", raw):
        result = (31 * result + unit) & 0xFFFFFFFF
    return result


def base36(number: int) -> str:
    """Return `number`, which is not negative, as JavaScript's `toString(36)` writes it."""
    number, last = divmod(number, 36)
    return (base36(number) if number else "") + _BASE36[last]


def path_hash(path: str) -> str:
    """Return the first 24 hexadecimal digits of the SHA-256 of `path` in NFC and UTF-8.

    It serves as projectHash of a project root and as memoryHash of a memory directory's real path.
    """
    return hashlib.sha256(as_utf8(unicodedata.normalize("NFC", path))).hexdigest()[:24]


def as_utf8(path: str) -> bytes:
    """Return `path` in UTF-8; paths that are not UTF-8 on disk stay distinct."""
    return path.encode("utf-8", "surrogatepass")


def data_directory(agent_dir: str) -> str:
    """Return the root of everything this memory keeps."""
    return f"{agent_dir.rstrip('/')}/project-memory"


def config_file(agent_dir: str) -> str:
    """Return the path of the one configuration file (CFG-1)."""
    return f"{data_directory(agent_dir)}/config.json"


def plain_namespace(agent_dir: str, root: str) -> str:
    """Return the namespace of the first project that reserved the key of `root`."""
    return f"{data_directory(agent_dir)}/projects/{project_key(root)}"


def collision_namespace(agent_dir: str, root: str) -> str:
    """Return the namespace of `root` when another project holds its key."""
    return f"{plain_namespace(agent_dir, root)}-{path_hash(root)}"


class ProjectPaths(Struct, frozen=True):
    """Where everything of one project lies, every path absolute.

    `memory_hash` is taken from the real path of `memory_dir`; `custom` tells whether the configuration
    chose that directory.
    """

    agent_dir: str
    project_root: str
    namespace_dir: str
    memory_dir: str
    memory_hash: str
    custom: bool

    @property
    def data_dir(self) -> str:
        """The root of everything this memory keeps."""
        return data_directory(self.agent_dir)

    @property
    def stores_dir(self) -> str:
        """The parent of the project's private state in custom directory mode."""
        return f"{self.namespace_dir}/stores"

    @property
    def base_dir(self) -> str:
        """The project's private state: its namespace, or the store of a custom memory directory."""
        return f"{self.stores_dir}/{self.memory_hash}" if self.custom else self.namespace_dir

    @property
    def state_file(self) -> str:
        """Where older versions kept the time of consolidation: read when `dream_state_file` is missing."""
        return f"{self.base_dir}/state.json"

    @property
    def memory_root_dir(self) -> str:
        """What all projects that use this memory directory share."""
        return f"{self.data_dir}/memory-roots/{self.memory_hash}"

    @property
    def dream_state_file(self) -> str:
        """The state file that is written: one for each memory directory."""
        return f"{self.memory_root_dir}/state.json"

    @property
    def locks_dir(self) -> str:
        """The locks between processes: one set for each memory directory."""
        return f"{self.memory_root_dir}/locks"
