"""The console script. `serve` is what Pi waits for, so nothing else is loaded on its way."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the subcommand that the command line names."""
    if sys.argv[1:] == ["serve"]:
        from pi_project_memory.supervisor.host.stdio import serve

        serve()
    from pi_project_memory.supervisor.cli import main

    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
