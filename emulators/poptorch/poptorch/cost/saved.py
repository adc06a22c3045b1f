"""What the backward pass needs of the forward pass: which tensors stay in memory until then."""

from dataclasses import dataclass

from poptorch.capture.program import Program
from poptorch.cost.call import Call
from poptorch.cost.elements import PERMUTATIONS, VIEWS
from poptorch.cost.products import PRODUCTS

# Their gradient is a formula of the result, so that the input may go.
_BY_RESULT = frozenset(
    ("relu", "leaky_relu", "sigmoid", "tanh", "softmax", "log_softmax", "exp", "sqrt", "rsqrt", "reciprocal")
)
# Poplar draws a dropout's mask again from its seed; sums need nothing.
_NOTHING = frozenset(
    (
        "add",
        "sub",
        "mean",
        "sum",
        "dropout",
        "cat",
        "stack",
        "clone",
        "masked_fill",
        "nll_loss_nd",
        "embedding",
    )
)


@dataclass(frozen=True)
class Lifetimes:
    """`roots` maps a value to the one whose memory it is; `saved` are, by operation, the roots its backward
    needs.
    """

    roots: dict[str, str]
    saved: dict[str, frozenset[str]]


def lifetimes(program: Program, calls: dict[str, Call]) -> Lifetimes:
    """Follow views to the tensors they look at, and say what each operation saves."""
    roots: dict[str, str] = {}
    saved: dict[str, frozenset[str]] = {}
    for operation in program.operations:
        call, name = calls[operation.name], operation.name
        base = call.name.rstrip("_")
        inputs = [roots.get(value, value) for value in operation.inputs]
        is_view = base in VIEWS or (base not in PRODUCTS and call.name.endswith("_"))
        roots[name] = inputs[0] if is_view and inputs else name
        needed: set[str] = set()
        if call.wants_gradient and not is_view and base not in _NOTHING and base not in PERMUTATIONS:
            if base in _BY_RESULT:
                needed = {roots[name]}
            elif base == "mul" or base in PRODUCTS:
                needed = set(inputs)
            else:
                needed = set(inputs[:1])
        saved[name] = frozenset(value for value in needed if value not in program.weights)
    return Lifetimes(roots, saved)
