"""Where a course lies on disk, and nbgrader's settings for it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

REPOSITORY = Path(__file__).resolve().parents[1]
CONFIG_FILE = REPOSITORY / "jupyter_config" / "nbgrader_config.py"


@dataclass(frozen=True)
class Layout:
    """The folders of one course."""

    root: Path
    course: Path
    exchange: Path

    @classmethod
    def find(cls, root: Path | None = None, course: Path | None = None) -> Layout:
        """The layout below ``root``: by default $TECHLABS_ROOT or this repository.

        One run of the course lies in ``course``, by default $TECHLABS_COURSE or ``course/``; its exchange is
        $TECHLABS_EXCHANGE or ``exchange/`` below that.
        """
        root = Path(root or os.environ.get("TECHLABS_ROOT") or REPOSITORY).absolute()
        if course is None:
            course = Path(os.environ.get("TECHLABS_COURSE") or root / "course")
            exchange = Path(os.environ.get("TECHLABS_EXCHANGE") or course / "exchange")
        else:
            exchange = course / "exchange"
        return cls(root, course.absolute(), exchange.absolute())

    @property
    def solutions(self) -> Path:
        """Text sources of the labs."""
        return self.root / "solutions"

    @property
    def labs(self) -> Path:
        """What learners get."""
        return self.root / "labs"

    @property
    def scratch(self) -> Path:
        """Anything that can be made again."""
        return self.root / "build"

    @property
    def source(self) -> Path:
        """nbgrader's source directory, made from ``solutions``."""
        return self.scratch / "source"

    @property
    def released(self) -> Path:
        """What the last build put into ``labs``."""
        return self.scratch / "released"

    def map_onto(self, config: Config) -> None:
        """Set nbgrader's paths to this layout, and make the course folder, which SQLite doesn't do."""
        self.course.mkdir(mode=0o700, parents=True, exist_ok=True)
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.source_directory = str(self.source)
        config.CourseDirectory.release_directory = str(self.labs)
        for step in ("submitted", "autograded", "feedback"):
            config.CourseDirectory[f"{step}_directory"] = str(self.course / step)
        config.CourseDirectory.db_url = f"sqlite:///{self.course / 'gradebook.db'}"
        config.ExecuteSubmission.course_root = str(self.root)
        config.Exchange.root = str(self.exchange)
        config.Exchange.cache = str(self.course / "cache")
        config.Exchange.assignment_dir = str(self.labs)


def load_config(layout: Layout) -> Config:
    """The settings of ``jupyter_config/nbgrader_config.py``, with the paths of ``layout``."""
    before = dict(os.environ)
    # The file asks `Layout.find`, as it does for plain nbgrader commands.
    os.environ.update(
        TECHLABS_ROOT=str(layout.root),
        TECHLABS_COURSE=str(layout.course),
        TECHLABS_EXCHANGE=str(layout.exchange),
    )
    try:
        return PyFileConfigLoader(CONFIG_FILE.name, path=str(CONFIG_FILE.parent)).load_config()
    finally:
        os.environ.clear()
        os.environ.update(before)
