"""The command line of `pi-project-memory`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pi_project_memory.supervisor.evaluate.arguments import add_evaluations
from pi_project_memory.supervisor.trace import add_trace
from pi_project_memory.supervisor.version import __version__


def main(arguments: Sequence[str]) -> int:
    """Run one subcommand and return its exit code."""
    options = _parser().parse_args(arguments)
    code: int = options.run(options)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pi-project-memory", description="A private, plain-Markdown memory of each project for Pi."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    install = commands.add_parser("install", help="put the extension where Pi finds it")
    install.set_defaults(run=_install)
    uninstall = commands.add_parser("uninstall", help="take the extension out again; memories stay")
    uninstall.set_defaults(run=_uninstall)
    doctor = commands.add_parser("doctor", help="say what is wrong and how to mend it; changes nothing")
    doctor.add_argument("--json", action="store_true", help="print the findings for a program to read")
    doctor.add_argument(
        "--cwd",
        metavar="DIR",
        type=_directory,
        default=Path(),
        help="whose project to examine (default: here)",
    )
    doctor.set_defaults(run=_doctor)
    simulate = commands.add_parser("simulate", help="play a scripted session and tell what happens in it")
    simulate.add_argument("scenario", type=Path, help="a YAML file, such as those in fixtures/sessions")
    simulate.set_defaults(run=_simulate)
    add_evaluations(commands.add_parser("evaluate", help="measure how well a model does a part of the work"))
    add_trace(commands.add_parser("trace", help="show one turn's life, from the log of its session"))
    serve = commands.add_parser("serve", help="the service itself; Pi starts it")
    serve.set_defaults(run=_serve)
    return parser


def _install(_options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.install import install

    return install()


def _uninstall(_options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.install import uninstall

    return uninstall()


def _doctor(options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.doctor import doctor

    report, code = doctor(options.cwd.absolute(), json=options.json)
    encoding = sys.stdout.encoding
    print(report.encode(encoding, "backslashreplace").decode(encoding))
    return code


def _directory(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory")
    return path


def _simulate(options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.simulate import run

    return run(options.scenario)


def _serve(_options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.host.stdio import serve

    serve()
