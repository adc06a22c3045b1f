"""What all groups of options share: typed values, readable and assignable until they are frozen."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

NoneType = type(None)


class OptionGroup:
    """Values with one setter each, readable and assignable as attributes until the group is frozen.

    A subclass lists its values in `DEFAULTS` as name -> (initial value, type or types). Reading or assigning
    a name that is not listed is an AttributeError, a value of the wrong type an AssertionError, and any
    change an AttributeError once the group is frozen. A deep copy is not frozen.
    """

    DEFAULTS: ClassVar[dict[str, tuple[Any, type | tuple[type, ...]]]] = {}

    def __init__(self):
        self._frozen = False
        self._values = {name: copy.copy(value) for name, (value, _) in self.DEFAULTS.items()}

    def __getattr__(self, name: str) -> Any:
        # Underscored names are never options: looking for one in a half-built copy must not recurse.
        if not name.startswith("_") and name in self._values:
            return self._values[name]
        raise self._unknown(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self.set(**{name: value})

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in {**self._values, **self._groups()}.items()]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __deepcopy__(self, memo: dict) -> "OptionGroup":
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update(copy.deepcopy(self.__dict__, memo))
        twin._frozen = False
        return twin

    def set(self, **values: Any) -> None:
        """Assign several values by name, with the checks of an assignment."""
        self.checkIsFrozen()
        for name, value in values.items():
            if name not in self.DEFAULTS:
                raise self._unknown(name)
            check_type(name, value, self.DEFAULTS[name][1])
            self._values[name] = value

    def checkIsFrozen(self, option: str | None = None) -> None:
        """AttributeError when the options belong to a loader or model; `option` is what would change."""
        if self._frozen:
            what = f" (the change asked for: {option})" if option else ""
            raise AttributeError(
                f"Can't modify frozen Options{what}: they belong to a DataLoader or a model by now. "
                "Change a copy, options.clone(), and make the model or loader again with it."
            )

    def _groups(self) -> dict[str, "OptionGroup"]:
        """Groups within this one, by the name they are reached by."""
        return {}

    @contextmanager
    def _thawed(self) -> Iterator[None]:
        """Allow changes to this group inside the block: what a model settles about its own options."""
        frozen, self._frozen = self._frozen, False
        try:
            yield
        finally:
            self._frozen = frozen

    def _freeze(self) -> None:
        self._frozen = True
        for group in self._groups().values():
            group._freeze()

    def _unknown(self, name: str) -> AttributeError:
        return AttributeError(
            f"{type(self).__name__} has no option {name!r}; it has {', '.join(self.DEFAULTS)}."
        )


def check_type(name: str, value: Any, expected: type | tuple[type, ...]) -> None:
    """AssertionError unless `value` is of a type that option `name` takes."""
    types = expected if isinstance(expected, tuple) else (expected,)
    # bool is an int to Python, but True is no number of device iterations.
    fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
    names = " or ".join("None" if each is NoneType else each.__name__ for each in types)
    assert fits, f"{name} must be of type {names}, but got {value!r} of type {type(value).__name__}."


def check_count(name: str, value: int) -> None:
    """AssertionError unless `value` is a whole number from 1 on."""
    check_type(name, value, int)
    assert value > 0, f"{name} must be at least 1, but got {value}."
