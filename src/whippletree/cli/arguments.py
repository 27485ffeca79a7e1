"""Arguments that several commands share: a model's file and what it needs beside it, and how paths are announced."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import arg

if TYPE_CHECKING:
    from whippletree.model import Model

ModelPath = Annotated[Path, arg(metavar="MODEL")]
ScenarioPath = Annotated[Path, arg(metavar="SCENARIO")]
RunPath = Annotated[Path, arg(metavar="RUN")]
OptionalPath = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class ModelFile:
    """Arguments that say which model is meant."""

    file: ModelPath
    """URDF, SDF, MJCF or native model file; or a scenario, for its model."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    loops: OptionalPath = None
    """A file with the loops that a URDF cannot say."""
    root: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """The folder that meshes and included files of the model must be in."""

    def load(self) -> Model:
        """The model."""
        import whippletree as wt
        from whippletree.scenario.scenario_reader import is_scenario

        if is_scenario(self.file):
            return wt.load_scenario(self.file).model
        return wt.load(self.file, base=self.base, loops=self.loops, root=self.root)
