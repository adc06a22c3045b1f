"""Which memory each kind of tensor lives in: on the chip or in streaming memory beside it."""

from typing import Any, ClassVar

from poptorch.options._group import NoneType, OptionGroup, check_type

# Tiles that may be set aside for transfers; an even number.
FEWEST_IO_TILES, MOST_IO_TILES = 32, 192


class TensorLocationSettings(OptionGroup):
    """Where one kind of tensor lives; None leaves a choice to the compiler."""

    DEFAULTS: ClassVar = {
        "minElementsForOffChip": (None, (int, NoneType)),
        "minElementsForReplicatedTensorSharding": (None, (int, NoneType)),
        "onChip": (None, (bool, NoneType)),
        "useReplicatedTensorSharding": (None, (bool, NoneType)),
        "useIOTilesToLoad": (None, (bool, NoneType)),
        "useIOTilesToStore": (None, (bool, NoneType)),
    }

    def minElementsForOffChip(self, min_elements: int) -> "TensorLocationSettings":
        """Keep tensors of fewer elements on the chip."""
        return self._with("minElementsForOffChip", min_elements)

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> "TensorLocationSettings":
        """Leave tensors of fewer elements whole on every replica."""
        return self._with("minElementsForReplicatedTensorSharding", min_elements)

    def useOnChipStorage(self, use: bool = True) -> "TensorLocationSettings":
        """Store on the chip (True), in streaming memory (False), or as the compiler likes (None)."""
        return self._with("onChip", use)

    def useReplicatedTensorSharding(self, use: bool = True) -> "TensorLocationSettings":
        """Give each replica a share of the tensor instead of a copy."""
        return self._with("useReplicatedTensorSharding", use)

    def useIOTilesToLoad(self, use: bool = True) -> "TensorLocationSettings":
        """Load from streaming memory through the tiles set aside for transfers."""
        return self._with("useIOTilesToLoad", use)

    def useIOTilesToStore(self, use: bool = True) -> "TensorLocationSettings":
        """Store to streaming memory through the tiles set aside for transfers."""
        return self._with("useIOTilesToStore", use)

    def _with(self, name: str, value: Any) -> "TensorLocationSettings":
        self.set(**{name: value})
        return self

    def toDict(self) -> dict[str, Any]:
        """The choices made, by name."""
        return {name: value for name, value in self._values.items() if value is not None}


class _TensorLocationOptions(OptionGroup):
    """Placement of the four kinds of tensors. Values are the dictionaries of their settings."""

    DEFAULTS: ClassVar = {
        "location_activation": ({}, dict),
        "location_weight": ({}, dict),
        "location_optimizer": ({}, dict),
        "location_accumulator": ({}, dict),
        "num_io_tiles": (0, int),
    }

    def numIOTiles(self, num_tiles: int) -> "_TensorLocationOptions":
        """Set tiles aside for transfers with the host and streaming memory. AssertionError out of range."""
        assert FEWEST_IO_TILES <= num_tiles <= MOST_IO_TILES and num_tiles % 2 == 0, (
            f"numIOTiles must be an even number between {FEWEST_IO_TILES} and {MOST_IO_TILES}. "
            f"Got {num_tiles}."
        )
        self.num_io_tiles = num_tiles
        return self

    def setActivationLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Place activations."""
        return self._place("location_activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Place weights."""
        return self._place("location_weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Place the optimizer's state: momenta and the like."""
        return self._place("location_optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> "_TensorLocationOptions":
        """Place the gradients that add up over micro-batches."""
        return self._place("location_accumulator", location)

    def _place(self, name: str, location: TensorLocationSettings) -> "_TensorLocationOptions":
        check_type(name, location, TensorLocationSettings)
        self.set(**{name: location.toDict()})
        return self
