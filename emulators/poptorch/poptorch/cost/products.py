"""What matrix products and convolutions ask of the tiles, forward and backward."""

import math
from collections.abc import Callable
from dataclasses import replace

from poptorch.cost.call import Call, Operand
from poptorch.cost.contraction import Contraction, matmul
from poptorch.cost.vector import Move, Vector

Work = Contraction | Vector | Move
ForwardBackward = tuple[list[Work], list[Work]]


def _product(
    call: Call,
    groups: int,
    m: int,
    k: int,
    n: int,
    left: Operand,
    right: Operand,
    bias: Operand | None = None,
) -> ForwardBackward:
    """`groups` products (n x k)(k x m): `left` is the activation, `right` takes the place of weights."""
    make = lambda *sizes: matmul(groups, *sizes, dtype=left.dtype, partials=call.partials)  # noqa: E731
    # The product wants its operands in a layout of its own.
    forward: list[Work] = [Move(groups * n * k, left.dtype, transposed=True), make(m, k, n)]
    backward: list[Work] = []
    if bias is not None:
        forward.append(Vector(groups * m * n, left.dtype, moved=0))
    if left.wants_gradient:
        backward += [Move(groups * m * k, left.dtype, transposed=True), make(k, m, n)]
    if right.wants_gradient:
        backward += [Move(groups * n * (k + m) // 2, left.dtype, transposed=True), make(m, n, k)]
    if bias is not None and bias.wants_gradient:
        backward.append(Vector(groups * m * n, left.dtype, sets=2))
    return forward, backward


def linear(call: Call) -> ForwardBackward:
    """Linear layer: rows of the input times the transposed weight."""
    x, weight = call["input"], call["weight"]
    outputs, inputs = weight.shape if len(weight.shape) == 2 else (1, weight.shape[0])
    rows = math.prod(x.shape[:-1])
    return _product(call, 1, outputs, inputs, rows, x, weight, call["bias"])


def general_matmul(call: Call) -> ForwardBackward:
    """Matrix product of any dimensions; leading ones are groups unless the right side lacks them."""
    names = [name for name in ("self", "mat1", "batch1") if isinstance(call.arguments.get(name), Operand)]
    left, right = (
        call[names[-1]],
        next(call[n] for n in ("other", "mat2", "batch2", "vec2", "tensor") if n in call.arguments),
    )
    k = left.shape[-1]
    m = right.shape[-1] if len(right.shape) > 1 else 1
    groups = math.prod(right.shape[:-2]) if len(right.shape) > 2 else 1
    return _product(call, groups, m, k, max(1, call.elements // (groups * m)), left, right)


def einsum(call: Call) -> ForwardBackward:
    """Sum of products over letters: those in both operands and the result are groups, those summed are
    inputs.
    """
    tensors = call["tensors"]
    inputs, output = call["equation"].replace(" ", "").split("->")
    names = inputs.split(",")
    if len(names) != 2 or "." in inputs:
        return [Vector(call.elements, call.dtype)], [Vector(call.elements, call.dtype)]
    sizes = dict(zip("".join(names), (size for t in tensors for size in t.shape), strict=True))
    left, right = map(set, names)
    extent = lambda letters: math.prod(sizes[letter] for letter in letters)  # noqa: E731
    shared = left & right
    return _product(
        call,
        extent(shared & set(output)),
        extent((right - left) & set(output)),
        extent(shared - set(output)),
        extent((left - right) & set(output)),
        *tensors,
    )


def attention(call: Call) -> ForwardBackward:
    """Scaled dot-product attention: scores, softmax, values. Heads and batch are groups."""
    query, key, value = call["query"], call["key"], call["value"]
    groups = math.prod(query.shape[:-2])
    rows, width = query.shape[-2:]
    columns, out_width = key.shape[-2], value.shape[-1]
    scores = Operand((groups, rows, columns), query.dtype, call.wants_gradient, False)
    first = _product(call, groups, columns, width, rows, query, key)
    second = _product(call, groups, out_width, columns, rows, scores, value)
    elements = groups * rows * columns
    soft = Vector(elements, query.dtype, passes=4, weight=1.5, sets=4)
    back = Vector(elements, query.dtype, passes=3, sets=3)
    extra: list[Work] = [Vector(elements, query.dtype, moved=0)] if call["attn_mask"] is not None else []
    extra += [Vector(elements, query.dtype, moved=0)] if call["dropout_p"] else []
    return [*first[0], *extra, soft, *second[0]], [*second[1], back, *extra, *first[1]]


# Gates of each recurrent layer, whose weights are stacked.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def recurrent(call: Call) -> ForwardBackward:
    """Recurrent layers: one product for all steps' inputs, then a product and the gates step by step."""
    x = call["input"]
    steps, rows = x.shape[:2][::-1] if call["batch_first"] else x.shape[:2]
    weights = [each for each in call["params"] if len(each.shape) == 2]
    forward: list[Work] = []
    backward: list[Work] = []
    for into, again in zip(weights[::2], weights[1::2], strict=True):
        (outputs, inputs), hidden = into.shape, again.shape[1]
        state = Operand((rows, hidden), x.dtype, again.wants_gradient, False)
        together = _product(call, 1, outputs, inputs, steps * rows, x, into)
        step = _product(call, 1, outputs, hidden, rows, state, again)
        gates = Vector(rows * hidden, x.dtype, passes=2 * _GATES[call.name], weight=2.0, sets=3)
        forward += [*together[0], *[*step[0], gates] * steps]
        backward += [*[*step[1], gates] * steps, *together[1]] if call.wants_gradient else []
    return forward, backward


# --- Convolutions


def convolution(call: Call) -> ForwardBackward:
    """Convolution over one to three dimensions, the outermost of three counted with the images."""
    x, weight, groups = call["input"], call["weight"], call["groups"]
    output = call.outputs[0].shape
    kernel, stride = _pair(weight.shape[2:]), _pair(_spread(call["stride"], len(weight.shape) - 2))
    height, width = _pair(output[2:])
    depth = weight.shape[2] if len(weight.shape) == 5 else 1
    work = Contraction(
        groups,
        weight.shape[1] * depth,
        weight.shape[0] // groups,
        output[0] * (output[2] if len(output) == 5 else 1),
        height,
        width,
        kernel,
        stride,
        x.dtype,
        call.partials,
    )
    return _with_gradients(call, work, x, weight)


def transposed_convolution(call: Call) -> ForwardBackward:
    """A convolution's data gradient as a layer: an output position meets a share of the taps."""
    x, weight, groups = call["input"], call["weight"], call["groups"]
    stride = _pair(_spread(call["stride"], len(weight.shape) - 2))
    kernel = tuple(math.ceil(k / s) for k, s in zip(_pair(weight.shape[2:]), stride, strict=True))
    height, width = _pair(call.outputs[0].shape[2:])
    work = Contraction(
        groups, weight.shape[0] // groups, weight.shape[1], x.shape[0], height, width, kernel,
        dtype=x.dtype, partials=call.partials,
    )  # fmt: skip
    return _with_gradients(call, work, x, weight)


def _with_gradients(call: Call, work: Contraction, x: Operand, weight: Operand) -> ForwardBackward:
    forward: list[Work] = [Move(x.elements, x.dtype, transposed=True), work]
    backward: list[Work] = []
    if call["bias"] is not None:
        forward.append(Vector(call.elements, x.dtype, moved=0))
    if x.wants_gradient:
        # Every weight turned around, and the taps of a strided convolution shared out over its input
        # positions.
        backward += [Move(weight.elements, x.dtype, transposed=True), _data_gradient(work)]
    if weight.wants_gradient:
        backward += [
            Move((x.elements + call.elements) // 2, x.dtype, transposed=True),
            _weight_gradient(work),
        ]
    if call["bias"] is not None and call["bias"].wants_gradient:
        backward.append(Vector(call.elements, x.dtype, sets=2))
    return forward, backward


def _data_gradient(work: Contraction) -> Contraction:
    return replace(
        work,
        inputs=work.outputs,
        outputs=work.inputs,
        height=work.height * work.stride[0],
        width=work.width * work.stride[1],
        kernel=tuple(math.ceil(k / s) for k, s in zip(work.kernel, work.stride, strict=True)),
        stride=(1, 1),
    )


def _weight_gradient(work: Contraction) -> Contraction:
    if work.inputs == work.outputs == 1:
        return work  # As many products as forward; the unit for matrix products is of no use here either.
    return Contraction(
        work.groups, inputs=work.positions, outputs=work.outputs, images=work.inputs * work.taps,
        dtype=work.dtype, partials=work.partials, shared=work.taps,
    )  # fmt: skip


def _spread(value: int | list[int], dimensions: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * dimensions if len(values) == 1 else values


def _pair(sizes: tuple[int, ...] | list[int]) -> tuple[int, int]:
    """The last two of the spatial sizes; a signal's is a row."""
    return (1, *sizes)[-2:] if len(sizes) == 1 else tuple(sizes[-2:])


PRODUCTS: dict[str, Callable[[Call], ForwardBackward]] = {
    "linear": linear,
    **dict.fromkeys(("matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "dot"), general_matmul),
    "einsum": einsum,
    "scaled_dot_product_attention": attention,
    **dict.fromkeys(_GATES, recurrent),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), transposed_convolution),
}
