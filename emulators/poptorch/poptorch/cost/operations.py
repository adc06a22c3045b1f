"""The price list: what every captured operation costs, forward and backward, and which are not known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from poptorch.cost import contraction, vector
from poptorch.cost.call import Call
from poptorch.cost.contraction import Contraction
from poptorch.cost.cycles import NOTHING, Cycles, total
from poptorch.cost.elements import ELEMENTS
from poptorch.cost.products import PRODUCTS, Work
from poptorch.machine import Machine


@dataclass(frozen=True)
class OperationCost:
    """One operation's price. `modelled` is False for one that the model doesn't know; it then costs nothing
    here and has to be shown as not modelled.
    """

    forward: Cycles
    backward: Cycles
    modelled: bool


NOT_MODELLED = OperationCost(NOTHING, NOTHING, modelled=False)


def _rule_name(name: str) -> str:
    # `add_` and `add` are the same to the tiles.
    return name if name in PRODUCTS or name in ELEMENTS else name.rstrip("_")


def price(call: Call, machine: Machine, memory_proportion: float) -> OperationCost:
    """What one micro-batch of one operation costs on `machine`."""
    name = _rule_name(call.name)
    rule = PRODUCTS.get(name) or ELEMENTS.get(name)
    if rule is None:
        return NOT_MODELLED
    forward, backward = rule(call)
    return OperationCost(
        cycles_of(forward, machine, memory_proportion), cycles_of(backward, machine, memory_proportion), True
    )


def cycles_of(works: Iterable[Work], machine: Machine, memory_proportion: float) -> Cycles:
    """Cycles of several pieces of work, one after the other."""
    return total(
        [
            contraction.cost(work, machine, memory_proportion)
            if isinstance(work, Contraction)
            else vector.cost(work, machine)
            for work in works
        ]
    )


def price_list(
    calls: Mapping[str, Call], machine: Machine, memory_proportion: Mapping[str, float]
) -> dict[str, OperationCost]:
    """Prices of a program's operations by name; `memory_proportion` is by operation too."""
    return {name: price(call, machine, memory_proportion[name]) for name, call in calls.items()}
