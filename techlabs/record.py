"""What a learner did in one lab, kept in one JSON file that never leaves this computer."""

from __future__ import annotations

import json
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from techlabs.paths import records_folder


class Record:
    """Predictions, check outcomes, hints opened, results and the exit slip of one lab.

    The file is written whole and swapped in, so that a crash leaves the old one. A damaged file is set aside
    under another name, never overwritten. A folder that can't be written costs the record, not the lab.
    """

    def __init__(self, lab: str):
        self._file = records_folder() / f"{lab}.json"
        # nbgrader runs a learner's notebook under the instructor's account: it neither sees nor changes
        # the instructor's own records.
        self._is_kept = "NBGRADER_EXECUTION" not in os.environ
        self._data = self._read()

    def get(self, kind: str, key: str, default: Any = None) -> Any:
        """The stored value, for example get("predictions", "calls")."""
        return self._data.get(kind, {}).get(key, default)

    def items(self, kind: str) -> dict[str, Any]:
        """All that is stored of one kind."""
        return dict(self._data.get(kind, {}))

    def put(self, kind: str, key: str, value: Any) -> None:
        """Store a value that JSON can hold."""
        # Another notebook of the same lab may be open: what it wrote stays.
        self._data = self._read()
        self._data.setdefault(kind, {})[key] = value
        self._write()

    def count(self, kind: str, key: str) -> int:
        """Add one to a counter and return it."""
        number = self.get(kind, key, 0) + 1
        self.put(kind, key, number)
        return number

    def _read(self) -> dict[str, dict[str, Any]]:
        if not self._is_kept:
            return getattr(self, "_data", {})
        try:
            data = json.loads(self._file.read_text(encoding="utf-8"))
        except OSError:
            return getattr(self, "_data", {})
        except ValueError:
            return self._set_aside()
        if isinstance(data, dict) and all(isinstance(kind, dict) for kind in data.values()):
            return data
        return self._set_aside()

    def _set_aside(self) -> dict[str, dict[str, Any]]:
        kept = self._file.with_suffix(time.strftime(".damaged-%Y%m%d-%H%M%S"))
        self._file.replace(kept)
        warnings.warn(f"{self._file} is damaged; it is kept as {kept.name}, a new one starts", stacklevel=2)
        return {}

    def _write(self) -> None:
        if not self._is_kept:
            return
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            handle, scratch = tempfile.mkstemp(dir=self._file.parent, suffix=".part")
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(self._data, stream, indent=1, sort_keys=True)
            Path(scratch).replace(self._file)
        except OSError as error:
            warnings.warn(
                f"Can't write {self._file} ({error.strerror}): this lab goes on, but won't remember. "
                "Set TECHLABS_HOME to a folder that you can write.",
                stacklevel=2,
            )
