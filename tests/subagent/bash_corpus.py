"""Commands for the bash policy, and the small world that they are judged and run in.

In the texts `M/` is the memory directory, `A/` the agent directory, `W/` the working directory and `O/` a place
outside every root.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pi_project_memory.actors.subagent.bash_policy import Allowed, Refused, check_command
from pi_project_memory.actors.subagent.path_policy import ReadRoots, read_roots

CANARY = "canary-41c7d2"
"""Text that stands only in files which no run may read."""

_PLACES = re.compile(r"\b([MAWO])(?=/)")


@dataclass(frozen=True, slots=True)
class World:
    """Directories of one run: the memory root lies inside the agent directory, the cwd inside the project."""

    base: Path
    memory: Path
    agent: Path
    project: Path
    cwd: Path
    outside: Path
    roots: ReadRoots

    def command(self, text: str) -> str:
        places = {"M": self.memory, "A": self.agent, "W": self.cwd, "O": self.outside}
        return _PLACES.sub(lambda place: str(places[place[1]]), text)

    def judge(self, text: str) -> Allowed | Refused:
        return check_command(self.command(text), cwd=self.cwd, roots=self.roots, memory_root=self.memory)


def make_world(base: Path) -> World:
    agent, project, outside = base / "home" / "agent", base / "project", base / "outside"
    memory = agent / "project-memory" / "projects" / "p" / "memory"
    cwd = project / "app"
    _fill(
        memory, {"MEMORY.md": "- [a](a.md)\n", "a.md": "alpha\n", "b.md": "beta\n", "nested/c.md": "gamma\n"}
    )
    _fill(memory, {".git/config.md": "x\n", "skills/s.md": "x\n", "notes.txt": "plain\n"})
    _fill(agent, {"auth.json": CANARY, "project-memory/projects/q/memory/q.md": CANARY})
    _fill(outside, {"secret.txt": f"{CANARY}\n", "a.md": f"{CANARY}\n", "deep/secret.txt": f"{CANARY}\n"})
    _fill(cwd, {"a.txt": "one\ntwo\none\n", "b.txt": "three 3\n", "x y.txt": "spaced\n", "list": "a.txt\n"})
    _fill(
        cwd, {"sub/c.txt": "four\n", "sub/deep/d.txt": "five\n", "{b}.txt": "braces\n", "dashes/-o": "dash\n"}
    )
    _fill(cwd, {"links/fine.txt": "fine\n"})
    (cwd / "links" / "secret.txt").symlink_to(outside / "secret.txt")
    (cwd / "links" / "up").symlink_to(outside)
    (cwd / "links" / "loop").symlink_to("loop")
    (cwd / ".away").symlink_to(outside)
    (cwd / "links" / "inside").symlink_to("../sub")
    roots = read_roots(project=[project], own=[memory], agent_dir=agent)
    return World(base, memory, agent, project, cwd, outside, roots)


def _fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def snapshot(base: Path) -> dict[str, tuple[int, int, int, object]]:
    """Mode, inode, mtime and content of every entry below `base`, by its path."""
    seen: dict[str, tuple[int, int, int, object]] = {}
    for path in sorted(base.rglob("*")):
        status = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        seen[str(path)] = (status.st_mode, status.st_ino, status.st_mtime_ns, content)
    return seen


ALLOWED = (
    "ls",
    "ls -la M/ && cat M/MEMORY.md",
    "ls -lt M/ | head -20",
    "cat M/*.md",
    "cat a.txt b.txt 2>/dev/null",
    "cat 'x y.txt' \"x y.txt\" x\\ y.txt",
    "cat '{b}.txt' \\{b\\}.txt",
    "head -5 a.txt; tail -n +3 a.txt; tail -5 a.txt; head -n5 a.txt; head -c 10 a.txt",
    "wc -l a.txt b.txt 2>&1",
    "grep -rn 'one' .",
    'grep -rn "one\\|two" --include="*.txt" sub | head -5',
    'grep -E "^one$|three$" a.txt b.txt',
    "grep -e one -e two -A2 -B 1 a.txt",
    "grep -f list a.txt /dev/null",
    "grep -c '' a.txt || echo none",
    "find . -name '*.txt' -not -path './links/*' -size +0 -mtime -7 | sort",
    "find M/ -type f \\( -name '*.md' -o -name '*.txt' \\) ! -newer a.txt -print",
    "find . -name *.nothing",
    "find . -type f -print0 | xargs -0 grep -l one",
    "find . -name '*.txt' | xargs -I{} head -1 {}",
    "grep -l one *.txt | xargs cat",
    "grep one a.txt | xargs cat",
    "ls | xargs sort --",
    "ls | xargs -n 1 file --",
    "ls | xargs",
    "sort -t: -k2,2n a.txt | uniq -c | sort -rn",
    "cut -d' ' -f1 b.txt | tr -d '\\n' | tr a-z A-Z",
    "stat -c '%Y %n' a.txt",
    "file a.txt",
    "pwd",
    "echo \"--- ---\" '$HOME' \\$HOME '`'",
    "echo a=b c#d e^f !g %1 @h ,i # and a comment",
    "ls # one\n\n  cat a.txt # two\n",
    "ls \\\n  -la \\\n  sub",
    "ls |\n cat &&\n pwd",
    "ls sub/../a.txt ./sub//c.txt",
    "ls links/inside",
    "ls -d * 'links/*'* \\*[a-z]",
    "ls [ab].txt ?.txt sub/*/",
    "cat dashes/* ./dashes/-o -- a.txt",
    "ls >/dev/null 2>&1; ls &>/dev/null; ls >> /dev/null; ls 1>&2; 2>/dev/null ls; ls -l 2>/dev/null sub",
    "echo 'über 日本 😀' | wc -m",
    "cat A/project-memory/projects/p/memory/a.md",
)

REMOVALS = (
    ("rm M/a.md", ("a.md",)),
    ("rm -f M/a.md M/nested/c.md", ("a.md", "nested/c.md")),
    ("rm -f M/b.md && ls M/", ("b.md",)),
    ("rm -- 'M/a.md'", ("a.md",)),
    ("rm -f M/gone.md; cat M/b.md", ("gone.md",)),
    ("rm M/nested/../a.md", ("a.md",)),
)
"""Commands that remove, and the topics below the memory directory that they remove."""

REFUSED: dict[str, tuple[tuple[str, str, str], ...]] = {
    "the rows of the case": (
        ("cat $(echo /etc/hostname)", "$(echo /etc/hostname)", "command substitution"),
        ("echo x > ~/f", "> ~/f", "redirection"),
        ("sed -i s/a/b/ M/a.md", "sed", "not allowed"),
        ("python3 -c 'print(1)'", "python3", "not allowed"),
        ("git -c core.pager=less log", "git", "not allowed"),
        ("find . -exec rm {} +", "-exec", "runs another program"),
    ),
    "substitutions": (
        ("cat `ls`", "`ls`", "command substitution"),
        ('cat "a$(ls)b"', "$(ls)", "command substitution"),
        ('cat "a`ls`"', "`ls`", "command substitution"),
        ("cat <(ls)", "<(ls)", "process substitution"),
        ("ls > >(cat)", ">(cat)", "process substitution"),
        ("echo $((1+1))", "$((1+1))", "arithmetic"),
        ("echo $[1+1]", "$[1+1]", "arithmetic"),
    ),
    "variables": (
        ("cat $HOME/x", "$HOME", "variable"),
        ('cat "$HOME"', "$HOME", "variable"),
        ("cat ${HOME}", "${HOME}", "parameter expansion"),
        ("echo ${x:=1}", "${x:=1}", "parameter expansion"),
        ("echo $1", "$1", "variable"),
        ("echo $?", "$?", "variable"),
        ("$x a.txt", "$x", "variable"),
        ("FOO=1 ls", "FOO=1", "assignment"),
        ("FOO=1", "FOO=1", "assignment"),
        ("a=1 b=2", "a=1 b=2", "assignment"),
        ("A+=1 ls", "A+=1", "assignment"),
        ("a[0]=1 ls", "a[0]=1", "assignment"),
        ("export A=b", "export A=b", "declaration"),
        ("declare -x A=1", "declare -x A=1", "declaration"),
        ("unset PATH", "unset PATH", "change of variables"),
        ("echo a$", "$", "unquoted $"),
    ),
    "special quotes": (
        ("cat $'\\x2fetc'", "$'\\x2fetc'", "$'…'"),
        ('cat $"a.txt"', '$"a.txt"', "unquoted $"),
        ('cat "a\\\nb"', '"a\\', "not literal"),
        ("ls 'open", "'open", "not understood"),
        ('ls "open', '"open', "not understood"),
    ),
    "tilde, braces, wildcards": (
        ("ls ~", "~", "~"),
        ("cat ~/x", "~/x", "~"),
        ("cat ~root/x", "~root/x", "~"),
        ("echo x=~/y", "x=~/y", "~"),
        ("echo x:~/y", "x:~/y", "~"),
        ("cat {a,b}.txt", "{a,b}.txt", "braces"),
        ("cat a{.txt,}", "{.txt,}", "braces"),
        ("echo {1..9}", "{1..9}", "brace"),
        ("echo @(a|b)", "(a|b)", "subshell"),
        ("echo !(a)", "(a)", "subshell"),
        ("ls /etc/*", "/etc/*", "outside"),
        ("echo /etc/*", "/etc/*", "outside"),
        ("ls O/s*", "O/s*", "outside"),
        ("ls A/a*", "A/a*", "closed to this run"),
        ("cat links/s*", "links/s*", "outside"),
        ("cat .[a-z]*/secret.txt", ".[a-z]*/secret.txt", "outside"),
        ("cat links/*/secret.txt", "links/*/secret.txt", "outside"),
        ("cat links/[r-z]*", "links/[r-z]*", "outside"),
        ("cat links/[![:digit:]]*", "links/[![:digit:]]*", "outside"),
        ("cat links/secret\\.tx?", "links/secret\\.tx?", "outside"),
        ("ls s*/../..", "s*/../..", "up after a wildcard"),
        ("cat **/*.txt", "**/*.txt", "means no more than"),
        (f"ls {'*/' * 17}", f"{'*/' * 17}", "too many levels"),
    ),
    "redirections": (
        ("ls > out", "> out", "redirection"),
        ("ls >> out", ">> out", "redirection"),
        ("ls 2> out", "> out", "redirection"),
        ("ls &> out", "&> out", "redirection"),
        ("ls >| out", ">|", "redirection"),
        ("ls <> out", "<", "redirection"),
        ("ls >&out", ">&out", "redirection"),
        ("ls >&-", ">&-", "redirection"),
        ("ls 3>/dev/null", ">/dev/null", "redirection"),
        ("ls >/dev/null/../x", ">/dev/null/../x", "redirection"),
        ("ls >/dev/nullx", ">/dev/nullx", "redirection"),
        ('ls >"/dev/null"', '>"/dev/null"', "redirection"),
        ("ls >/dev/null>x", ">/dev/null>x", "redirection"),
        ("ls > /dev/tcp/127.0.0.1/9", "> /dev/tcp/127.0.0.1/9", "redirection"),
        ("wc -l < a.txt", "<", "redirection"),
        ("cat <&3", "<&", "redirection"),
        ("cat <&-", "<&-", "redirection"),
        ("ls {fd}>/dev/null", "{fd}>/dev/null", "braces"),
        ("echo x >M/a.md", ">M/a.md", "redirection"),
        ("ls 2>/dev/null O/secret.txt", "O/secret.txt", "outside"),
        ("cat 1>&2 O/secret.txt", "O/secret.txt", "outside"),
    ),
    "here-documents": (
        ("cat <<E\nx\nE", "<<E\nx\nE", "here-document"),
        ("cat <<-'E' > M/a.md\nx\nE", "<<-'E' > M/a.md\nx\nE", "here-document"),
        ("cat <<E\nx", "<<", "redirection"),
        ("cat <<< x", "<<< x", "here-string"),
    ),
    "structure": (
        ("(ls)", "(ls)", "subshell"),
        ("{ ls; }", "{ ls; }", "group"),
        ("((1))", "((1))", "group"),
        ("f() { ls; }", "f() { ls; }", "function"),
        ("function f { ls; }", "function f { ls; }", "function"),
        ("if ls; then ls; fi", "if ls; then ls; fi", "if statement"),
        ("for a in b; do ls; done", "for a in b; do ls; done", "loop"),
        ("for ((;;)); do ls; done", "for ((;;)); do ls; done", "loop"),
        ("while ls; do ls; done", "while ls; do ls; done", "loop"),
        ("case a in b) ls;; esac", "case a in b) ls;; esac", "case statement"),
        ("[[ a = b ]]", "[[ a = b ]]", "test"),
        ("[ -f a.txt ]", "[ -f a.txt ]", "test"),
        ("! ls", "! ls", "negation"),
        ("ls | ! cat", "! cat", "negation"),
        ("time ls", "time", "not allowed"),
        ("coproc ls", "coproc", "not allowed"),
        ("alias ls=rm", "alias", "not allowed"),
        ("ls &", "&", "background"),
        ("ls & pwd", "&", "background"),
        ("ls |& cat", "|&", "|&"),
        ("ls ;; pwd", ";;", "not understood"),
        ("ls |", "the command", "not understood"),
        ("&& ls", "&&", "not understood"),
        ("ls\n| cat", "|", "not understood"),
        ("ls ;&>/dev/null", ";&>/dev/null", "not understood"),
        (f"{'(' * 2_000}ls{')' * 2_000}", f"{'(' * 200}…", "group"),
    ),
    "command names": (
        ("c''at a.txt", "c''at", "not allowed"),
        ('"cat" a.txt', '"cat"', "not allowed"),
        ("\\cat a.txt", "\\cat", "not allowed"),
        ("c\\at a.txt", "c\\at", "not allowed"),
        ("/bin/cat a.txt", "/bin/cat", "not allowed"),
        ("./cat a.txt", "./cat", "not allowed"),
        ("c?t a.txt", "c", "not understood"),
        (". a.txt", ".", "not allowed"),
        ("eval ls", "eval", "not allowed"),
        ("exec ls", "exec", "not allowed"),
        ("env ls", "env", "not allowed"),
        ("command ls", "command", "not allowed"),
        ("awk '{print}' a.txt", "awk", "not allowed"),
        ("cd O/ && ls", "cd", "not allowed"),
        ("tee M/a.md", "tee", "not allowed"),
        ("CAT a.txt", "CAT", "not allowed"),
    ),
    "options": (
        ("sort -o out a.txt", "-o", "writes a file"),
        ("sort -oout a.txt", "-oout", "writes a file"),
        ("sort -no out a.txt", "-no", "writes a file"),
        ("sort '-o' out a.txt", "'-o'", "writes a file"),
        ("sort -\\o out a.txt", "-\\o", "writes a file"),
        ("sort a.txt -o out", "-o", "writes a file"),
        ("sort --output=out a.txt", "--output=out", "writes a file"),
        ("sort --outp=out a.txt", "--outp=out", "not among"),
        ("sort --compress-program=sh a.txt", "--compress-program=sh", "runs another program"),
        ("sort -T O/ a.txt", "-T", "writes a file"),
        ("sort --files0-from=list", "--files0-from=list", "file names from a file"),
        ("wc --files0-from=list", "--files0-from=list", "file names from a file"),
        ("tail -f a.txt", "-f", "never ends"),
        ("tail -5f a.txt", "-5f", "not among"),
        ("tail --follow=name a.txt", "--follow=name", "never ends"),
        ("tail --pid=1 a.txt", "--pid=1", "never ends"),
        ("file -C -m a.txt", "-C", "writes a file"),
        ("file -bz a.txt", "-bz", "runs another program"),
        ("file -f list", "-f", "file names from a file"),
        ("find . -delete", "-delete", "deletes"),
        ("find . -fprint out", "-fprint", "writes a file"),
        ("find . -ok cat {} \\;", "-ok", "runs another program"),
        ("find . '-exec' cat {} +", "'-exec'", "runs another program"),
        ("find . -L", "-L", "follows symbolic links"),
        ("find -files0-from list", "-files0-from", "file names from a file"),
        ("find . -name", "-name", "needs a value"),
        ("find . -type f O/", "O/", "after the expression"),
        ("grep -R one .", "-R", "follows symbolic links"),
        ("grep one a.txt -e two", "-e", "after an operand"),
        ("grep -m", "-m", "needs a value"),
        ("grep -A x one a.txt", "x", "takes a number"),
        ("grep -f l* a.txt", "l*", "one literal path"),
        ("head -n [0-9] a.txt", "[0-9]", "takes a number"),
        ("cat --number=3 a.txt", "--number=3", "takes no value"),
        ("uniq a.txt b.txt", "b.txt", "second one"),
        ("uniq a.txt -c", "-c", "after an operand"),
        ("uniq a.tx?", "a.tx?", "second one"),
        ("pwd a.txt", "a.txt", "takes no operands"),
        ("ls --unknown", "--unknown", "not among"),
    ),
    "xargs": (
        ("ls | xargs rm", "xargs rm", "not run on unknown words"),
        ("ls | xargs find", "xargs find", "not run on unknown words"),
        ("ls | xargs xargs cat", "xargs xargs", "not run on unknown words"),
        ("ls | xargs uniq", "xargs uniq", "not run on unknown words"),
        ("ls | xargs sort", "xargs sort", "could be options"),
        ("ls | xargs sort -n", "xargs sort", "could be options"),
        ("ls | xargs file", "xargs file", "could be options"),
        ("ls | xargs -I{} sort -- {}", "xargs sort", "could be options"),
        ("ls | xargs sh -c 'ls'", "sh", "not allowed"),
        ("ls | xargs 'cat'", "'cat'", "not allowed"),
        ("ls | xargs -I cat cat", "-I cat", "parts of the command"),
        ("ls | xargs -Ia cat a", "-I a", "parts of the command"),
        ("ls | xargs -a list cat", "-a", "file names from a file"),
        ("ls | xargs -P 4 cat", "-P", "not among"),
        ("ls | xargs -d * cat", "xargs", "could name the command"),
        ("ls | xargs -d a* cat", "xargs", "could name the command"),
        ("ls | xargs cat O/secret.txt", "O/secret.txt", "outside"),
        ("ls | xargs -n1 grep -f O/secret.txt", "O/secret.txt", "outside"),
        ("ls | xargs --max-lines 5 cat", "5", "not allowed"),
    ),
    "paths": (
        ("cat O/secret.txt", "O/secret.txt", "outside"),
        ("cat ../../outside/secret.txt", "../../outside/secret.txt", "outside"),
        ("cat sub/../../../outside/secret.txt", "sub/../../../outside/secret.txt", "outside"),
        ("cat links/secret.txt", "links/secret.txt", "outside"),
        ("cat links/up/secret.txt", "links/up/secret.txt", "outside"),
        ("cat links/up/../secret.txt", "links/up/../secret.txt", "outside"),
        ("cat links/loop", "links/loop", "too many symbolic links"),
        ("cat A/auth.json", "A/auth.json", "closed to this run"),
        ("ls A/project-memory/projects", "A/project-memory/projects", "closed to this run"),
        ("cat /proc/self/environ", "/proc/self/environ", "closed to this run"),
        ("cat /proc/self/cwd/a.txt", "/proc/self/cwd/a.txt", "closed to this run"),
        ("cat /dev/stdin", "/dev/stdin", "closed to this run"),
        ("cat -- O/secret.txt", "O/secret.txt", "outside"),
        ("cat - O/secret.txt", "O/secret.txt", "outside"),
        ("head -n 1 O/secret.txt", "O/secret.txt", "outside"),
        ("grep -f O/secret.txt a.txt", "O/secret.txt", "outside"),
        ("grep -nf../../outside/secret.txt a.txt", "-nf../../outside/secret.txt", "outside"),
        ("grep --file=O/secret.txt a.txt", "--file=O/secret.txt", "outside"),
        ("grep one O/secret.txt", "O/secret.txt", "outside"),
        ("grep -e one O/secret.txt", "O/secret.txt", "outside"),
        ("find O/ -name x", "O/", "outside"),
        ("find . -newer O/secret.txt", "O/secret.txt", "outside"),
        ("stat O/secret.txt", "O/secret.txt", "outside"),
        ("uniq O/secret.txt", "O/secret.txt", "outside"),
        ("ls; cat a.txt | cat O/secret.txt", "O/secret.txt", "outside"),
        ("cat 'O/secret'.txt", "'O/secret'.txt", "outside"),
        (f"cat {'a/' * 3_000}", f"{'a/' * 100}…", "characters long"),
    ),
    "removals": (
        ("rm M/MEMORY.md", "M/MEMORY.md", "index is never removed"),
        ("rm -f M/nested/../MEMORY.md", "M/nested/../MEMORY.md", "index is never removed"),
        ("rm -rf M/nested", "-rf", "whole directories"),
        ("rm -i M/a.md", "-i", "not among"),
        ("rm M/*.md", "M/*.md", "no wildcard"),
        ("rm M/[a].md", "M/[a].md", "no wildcard"),
        ("rm M/{a,b}.md", "{a,b}.md", "braces"),
        ("rm a.md", "a.md", "outside the memory directory"),
        ("rm O/a.md", "O/a.md", "outside the memory directory"),
        ("rm M/../q.md", "M/../q.md", "outside the memory directory"),
        ("rm M/notes.txt", "M/notes.txt", "no memory file"),
        ("rm M/A.MD", "M/A.MD", "no memory file"),
        ("rm M/.git/config.md", "M/.git/config.md", "reserved"),
        ("rm M/Skills/s.md", "M/Skills/s.md", "reserved"),
        ("rm M/nested", "M/nested", "no memory file"),
        ("rm M/", "M/", "no memory file"),
        ("rm M/a.md -f", "-f", "after an operand"),
        ("rm M/a.md -- M/b.md", "--", "after an operand"),
        ("rm", "rm", "names no file"),
        ("rm \\ M/a.md", "rm \\ M/a.md", "where its words end"),
    ),
    "characters": (
        ("cat a.txt\0", "'\\x00'", "control character"),
        ("cat\ra.txt", "'\\r'", "control character"),
        ("cat\va.txt", "'\\x0b'", "control character"),
        ("cat 'a\x1b[2J'", "'\\x1b'", "control character"),
        ("cat \x85", "'\\x85'", "control character"),
        ("cat \ud800", "the command", "surrogate"),
        ("cat\u00a0a.txt", "\u00a0a.txt", "does not take for one"),
        ("cat a.txt\u3000O/secret.txt", "\u3000O/secret.txt", "does not take for one"),
        ("ls \u2028pwd", "\u2028pwd", "does not take for one"),
        ("cat a\\\nb", "\\", "backslash"),
        ("cat a \\ \\\nb", "\\", "backslash"),
        ("cat \\", "\\", "not understood"),
        ("", "the command", "empty"),
        (" \n # only a comment\n", "the command", "empty"),
        (f"cat {'a' * 40_000}", "the command", "longer than"),
        (f"cat {'a.txt ' * 2_500}", "the command", "names over"),
        (f"ls {'* ' * 60}", "the command", "names over"),
    ),
}
"""Tricks by kind: the command, the part that the refusal names, and words of its reason."""
