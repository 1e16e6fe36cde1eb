"""Build hook: an editable install imports through links laid out as the wheel is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EditableLinks(BuildHookInterface[Any]):
    """Link each source folder into `build/editable` under its installed name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Make the links for an editable build; a wheel needs none."""
        if version != "editable":
            return
        root = Path(self.root)
        for folder, target in self.build_config.target_config["sources"].items():
            link = root / "build/editable" / target
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(root / folder, link.parent), target_is_directory=True)
