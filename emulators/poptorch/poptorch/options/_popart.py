"""Raw options of the layers below: PopART's session, its rewrite patterns, and Poplar's engine."""

from typing import Any, ClassVar

from poptorch.options._group import OptionGroup, check_type


class _PopartOptions(OptionGroup):
    """Options by the names PopART gives them; whether a name exists is checked when a model is compiled."""

    DEFAULTS: ClassVar = {
        "options": ({}, dict),
        "patterns": ({}, dict),
        "patterns_level": (2, int),
    }

    def set(self, key: str | None = None, value: Any = None, **values: Any) -> "_PopartOptions":
        """Set one PopART session option, such as "autoRecomputation" or "outlineThreshold"."""
        if key is None:
            super().set(**values)
        else:
            self.checkIsFrozen(key)
            self.options[key] = value
        return self

    def setEngineOptions(self, engine_options: dict[str, str]) -> "_PopartOptions":
        """Set Poplar engine options by name."""
        check_type("engine_options", engine_options, dict)
        return self.set("engineOptions", engine_options)

    def setPatterns(self, patterns: dict[str, bool], level: int = 2) -> "_PopartOptions":
        """Switch rewrite patterns on or off by name, on top of a level: 0 none, 1 minimal, 2 the default."""
        super().set(patterns=patterns, patterns_level=level)
        return self
