"""Automatic loss scaling: the scale of the loss follows the size of float16 gradients."""

import torch

# PopART's defaults: every 8 updates the scale is halved if more than 1e-7 of the gradients' elements are
# above an eighth of float16's range, else doubled (SessionOptions, AutomaticLossScalingSettings).
_PERIOD, _LARGE, _TOO_MANY = 8, 0.125 * torch.finfo(torch.float16).max, 1e-7
_UPDATE_FACTOR = "lossScaleUpdateFactor"


class LossScale:
    """A factor on top of the optimizer's loss scaling, 1 unless automatic."""

    def __init__(self, automatic: bool):
        self._automatic = automatic
        self.factor = 1.0
        self.last_used = 1.0
        self._large = self._elements = self._updates = 0

    def unscale(self, gradients: list[torch.Tensor]) -> None:
        """Take the factor out of scaled gradients again, in place, noting how many float16 ones are large."""
        if not self._automatic:
            return
        for gradient in gradients:
            if gradient.dtype == torch.float16:
                self._elements += gradient.numel()
                # NaN and infinity count as large.
                self._large += int((~(gradient.abs() <= _LARGE)).sum())
        if self.factor != 1.0:
            torch._foreach_mul_(gradients, 1 / self.factor)

    def adapt(self) -> None:
        """Count an update; after a period of them, change the factor."""
        if not self._automatic:
            return
        self.last_used = self.factor
        self._updates += 1
        if self._updates % _PERIOD == 0 and self._elements:
            self.factor *= 0.5 if self._large / self._elements > _TOO_MANY else 2.0
            self._large = self._elements = 0

    def state(self) -> dict[str, torch.Tensor]:
        """The factor as part of the optimizer's state; empty unless automatic."""
        return {_UPDATE_FACTOR: torch.tensor(self.factor)} if self._automatic else {}

    def load(self, state: dict[str, torch.Tensor]) -> None:
        """Take over the factor."""
        if self._automatic and _UPDATE_FACTOR in state:
            self.factor = float(state[_UPDATE_FACTOR])
