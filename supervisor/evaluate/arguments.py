"""The command line of `pi-project-memory evaluate`; what it runs is loaded when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from pi_project_memory.actors.core.config import ThinkingLevel

RECALL_FIXTURE = Path("fixtures/recall")
EXTRACTION_FIXTURE = Path("fixtures/extraction")
PARALLEL = 4


def add_evaluations(parser: argparse.ArgumentParser) -> None:
    """Give `parser` one subcommand for each thing that can be evaluated."""
    kinds = parser.add_subparsers(metavar="WHAT", required=True)
    recall = kinds.add_parser("recall", help="how well a model chooses topics for a prompt")
    recall.add_argument(
        "fixture",
        type=Path,
        nargs="?",
        default=RECALL_FIXTURE,
        help=f"a folder with memory/ and queries.yaml (default: {RECALL_FIXTURE})",
    )
    _add_host(recall)
    _add_model(recall, tokens="512")
    recall.add_argument(
        "--no-structured-output",
        dest="structured_output",
        action="store_false",
        help="ask in the tool form from the start",
    )
    recall.set_defaults(run=_recall)
    extraction = kinds.add_parser("extraction", help="what a model keeps of a conversation")
    extraction.add_argument(
        "fixture",
        type=Path,
        nargs="?",
        default=EXTRACTION_FIXTURE,
        help=f"a folder with cases/ (default: {EXTRACTION_FIXTURE})",
    )
    _add_host(extraction)
    _add_model(extraction, tokens="what the model allows")
    extraction.set_defaults(run=_extraction)


def _add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pi", metavar="PROGRAM", default="pi", help="the Pi that is asked (default: pi)")
    parser.add_argument(
        "--extension",
        metavar="PATH",
        action="append",
        default=[],
        help="an extension that Pi needs for the model, such as builtin:llama.cpp; may be repeated",
    )
    parser.add_argument(
        "--parallel", metavar="N", type=_count, default=PARALLEL, help="requests at a time (default: 4)"
    )


def _add_model(parser: argparse.ArgumentParser, *, tokens: str) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--model",
        metavar="PROVIDER/ID",
        default="inherit",
        help="the model (default: the one Pi starts with)",
    )
    source.add_argument("--script", metavar="FILE", type=Path, help="scripted replies in place of Pi")
    levels = get_args(ThinkingLevel)
    parser.add_argument("--thinking", choices=levels, default="off", help="thinking level (default: off)")
    parser.add_argument(
        "--max-tokens", metavar="N", type=_count, help=f"output tokens of one answer (default: {tokens})"
    )


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _recall(options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.evaluate.command import recall

    return recall(options)


def _extraction(options: argparse.Namespace) -> int:
    from pi_project_memory.supervisor.evaluate.command import extraction

    return extraction(options)
