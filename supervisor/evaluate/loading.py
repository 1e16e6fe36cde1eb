"""Reading what an evaluation is made of: YAML files checked against their types."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

T = TypeVar("T")


class EvaluationError(Exception):
    """An evaluation that cannot begin; the text says where, why and what to change."""


def load_yaml(path: Path, kind: type[T]) -> T:
    """Return the file's content as `kind`; raises EvaluationError with the place of what is wrong."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return msgspec.convert(YAML(typ="safe").load(path), kind)
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error.strerror}") from None
    except (YAMLError, msgspec.ValidationError, UnicodeError) as error:
        raise EvaluationError(f"{path} does not have the form it needs: {error}") from None


def refuse(path: Path, findings: Iterable[str]) -> None:
    """Raise EvaluationError with every finding in `path`; without one, do nothing."""
    told = [f"\n- {finding}" for finding in findings]
    if told:
        raise EvaluationError(f"{path} cannot be used:{''.join(told)}")
