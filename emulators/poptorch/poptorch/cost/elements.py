"""What element-wise operations, norms, pooling, softmax, losses, gathers and copies ask of the tiles."""

import math
from collections.abc import Callable

from poptorch.cost import constants as c
from poptorch.cost.call import Call, Operand
from poptorch.cost.products import ForwardBackward, Work
from poptorch.cost.vector import Move, Vector


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Operations that only look at a tensor in another way: Poplar reads it where it is.
VIEWS = _names("""
    view reshape flatten unflatten view_as unsqueeze squeeze expand expand_as detach alias getitem slice
    select chunk split split_with_sizes unbind narrow t broadcast_to contiguous
    lift_fresh lift_fresh_copy broadcast_tensors tensor_split diagonal real recomputation_checkpoint
    set_available_memory begin_ipu_block end_ipu_block print_tensor
""")
_SIMPLE = _names("""
    add sub rsub mul neg abs sign square relu relu6 leaky_relu clamp clamp_min clamp_max threshold
    hardtanh where maximum minimum eq ne lt le gt ge logical_and logical_or logical_not logical_xor
    bitwise_and bitwise_or bitwise_not bitwise_xor masked_fill fill copy clone lerp floor ceil round
    trunc frac fmod remainder isnan isfinite addcmul addcdiv fmax fmin tril triu zero hardshrink
    softshrink nan_to_num
""")
TRANSCENDENTAL = _names("""
    div true_divide reciprocal exp expm1 exp2 log log1p log2 log10 sqrt rsqrt pow sigmoid tanh gelu silu mish
    selu elu celu softplus softsign hardswish hardsigmoid erf erfc sin cos tan asin acos atan atan2 sinh cosh
    log_sigmoid logit floor_divide prelu glu
""")
_RANDOM = _names(
    "dropout feature_dropout alpha_dropout bernoulli rand_like randn_like normal uniform rand randn"
)
_CONSTANTS = _names("""
    arange full zeros ones empty zeros_like ones_like full_like empty_like new_zeros new_ones new_full
    scalar_tensor eye linspace empty_permuted
""")
_NORMS = _names("batch_norm group_norm layer_norm instance_norm rms_norm")
_REDUCTIONS = _names("""
    sum mean amax amin max min prod any all norm linalg_vector_norm var std var_mean std_mean argmax argmin
    logsumexp cumsum
""")
_POOLING = _names("""
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d max_pool2d_with_indices
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d
""")
_LOSSES = _names("""
    binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy_loss
    hinge_embedding_loss huber_loss identity_loss kl_div l1_loss margin_ranking_loss mse_loss nll_loss
    nll_loss2d nll_loss_nd poisson_nll_loss smooth_l1_loss soft_margin_loss
""")
PERMUTATIONS = _names("transpose permute movedim numpy_T mT swapaxes roll flip")
_GATHERS = _names("embedding gather index_select index take take_along_dim")
_SCATTERS = _names("""
    scatter scatter_add scatter_reduce index_add index_copy index_put index_fill one_hot slice_scatter
    select_scatter
""")
_COPIES = _names("""
    cat concat stack pad constant_pad_nd reflection_pad2d replication_pad2d repeat tile
    repeat_interleave pixel_shuffle pixel_unshuffle upsample_nearest2d upsample_bilinear2d im2col meshgrid
    channel_shuffle
""")


def free(call: Call) -> ForwardBackward:
    """Nothing to do, or a constant that is made when the program is loaded."""
    return [], []


def cast(call: Call) -> ForwardBackward:
    """A change of type; a view when the type stays."""
    operand = next(iter(call.operands), None)
    if operand is None or operand.dtype == call.dtype:
        return [], []
    work = Vector(call.elements, call.dtype, moved=0)
    return [work], [work] if call.wants_gradient else []


def _wanting(call: Call) -> list[Operand]:
    return [operand for operand in call.operands if operand.wants_gradient]


def elementwise(weight: float) -> Callable[[Call], ForwardBackward]:
    """One pass over the results. Operands but the first have to come to where the first is."""

    def work(call: Call) -> ForwardBackward:
        operands = call.operands
        moved = c.MISPLACED * sum(each.elements for each in operands[1:])
        forward = [
            Vector(call.elements, call.dtype, passes=max(1, len(operands) / 2), weight=weight, moved=moved)
        ]
        backward: list[Work] = []
        for operand in _wanting(call):
            if call.name not in ("add", "sub", "add_", "sub_") or weight != 1.0:
                backward.append(Vector(call.elements, call.dtype, passes=1.5, weight=weight, moved=moved))
            if operand.elements < call.elements:  # It was broadcast: its gradient is a sum.
                backward.append(Vector(call.elements, call.dtype, sets=2, moved=operand.elements))
        return forward, backward

    return work


def random_mask(call: Call) -> ForwardBackward:
    """Random numbers at every element; the backward pass draws the same ones again."""
    work = Vector(max(call.elements, 1), call.dtype, passes=1, weight=2, moved=0)
    return [work], [work] if call.wants_gradient else []


def norm(call: Call) -> ForwardBackward:
    """Statistics on and over tiles, then scaling; backward two sums and the correction."""
    x = call.operands[0]
    training = call.arguments.get("training", call.arguments.get("use_input_stats", True))
    statistics = Vector(x.elements, x.dtype, passes=2, sets=4, moved=0)
    scale = Vector(x.elements, x.dtype, passes=2, sets=2, moved=0)
    forward: list[Work] = [statistics, scale] if training else [scale]
    backward: list[Work] = []
    if call.wants_gradient:
        backward = [Vector(x.elements, x.dtype, passes=4, sets=7 if training else 2, moved=0)]
    return forward, backward


def reduction(call: Call) -> ForwardBackward:
    """Sums on the tiles, then over them; the gradient is spread over the elements again."""
    x = call.operands[0]
    return (
        [Vector(x.elements, x.dtype, sets=2, moved=call.elements * 8)],
        [Vector(x.elements, x.dtype, moved=call.elements)] if call.wants_gradient else [],
    )


def pooling(call: Call) -> ForwardBackward:
    """Every result looks at a window; neighbours on other tiles send their edges."""
    x = call.operands[0]
    kernel = call.arguments.get("kernel_size")
    if kernel is None:
        return reduction(call)
    window = math.prod([kernel] * 2 if isinstance(kernel, int) else kernel * (2 if len(kernel) == 1 else 1))
    forward = Vector(call.elements, x.dtype, passes=window, moved=x.elements)
    backward = Vector(x.elements, x.dtype, passes=3, moved=2 * x.elements)
    return [forward], [backward] if call.wants_gradient else []


def softmax(call: Call) -> ForwardBackward:
    """Maximum, exponential, sum, division; backward a product, a sum and a difference."""
    elements = call.operands[0].elements
    forward = Vector(elements, call.dtype, passes=4, weight=1.5, sets=4, moved=0)
    backward = Vector(elements, call.dtype, passes=3, sets=3, moved=0)
    return [forward], [backward] if call.wants_gradient else []


def loss(call: Call) -> ForwardBackward:
    """A distance at every element and its sum; cross-entropies take a softmax before."""
    elements = call.operands[0].elements
    entropy = 4 if call.name.startswith(("cross_entropy", "binary_cross_entropy_with_logits")) else 0
    work = Vector(elements, call.operands[0].dtype, passes=2 + entropy, sets=3 + entropy, moved=0)
    back = Vector(elements, call.operands[0].dtype, passes=2, sets=2, moved=0)
    return [work], [back] if call.wants_gradient else []


def gather(call: Call) -> ForwardBackward:
    """Rows picked by index: each tile offers its share of the table to all; backward adds into the table."""
    table = call.operands[0]
    forward = Vector(call.elements, call.dtype, sets=2, moved=2 * call.elements)
    backward: list[Work] = []
    if table.wants_gradient:
        # The gradient of the table is as large as the table, and zero before rows are added.
        rows = Vector(call.elements, call.dtype, passes=2, sets=2, moved=2 * call.elements)
        backward = [Vector(table.elements, table.dtype), rows]
    return [forward], backward


def scatter(call: Call) -> ForwardBackward:
    """Updates added or written into a copy of a tensor."""
    source = call.operands[-1]
    work: list[Work] = [
        Vector(call.elements, call.dtype),
        Vector(source.elements, call.dtype, passes=2, sets=2, moved=2 * source.elements),
    ]
    return work, work if call.wants_gradient else []


def copy(call: Call) -> ForwardBackward:
    """Elements brought into one tensor, or into another order."""
    return [Move(call.elements, call.dtype)], [Move(call.elements, call.dtype)] if call.wants_gradient else []


def permutation(call: Call) -> ForwardBackward:
    """Elements in another order, which whoever reads them next needs done."""
    work = Move(call.elements, call.dtype, transposed=True)
    return [work], [work] if call.wants_gradient else []


def sort(call: Call) -> ForwardBackward:
    """Bitonic sorting: log2(n)(log2(n)+1)/2 compare-and-exchange steps over rows of n."""
    x = call.operands[0]
    steps = math.log2(max(2, x.shape[call.arguments.get("dim", -1) or -1] if x.shape else 2))
    stages = math.ceil(steps * (steps + 1) / 2)
    work = Vector(x.elements, x.dtype, passes=stages, sets=stages, moved=stages * x.elements)
    return [work], [Vector(x.elements, x.dtype, moved=x.elements)] if call.wants_gradient else []


ELEMENTS: dict[str, Callable[[Call], ForwardBackward]] = {
    **dict.fromkeys(VIEWS | _CONSTANTS, free),
    **dict.fromkeys(("to", "_to_copy", "type_as", "half", "float"), cast),
    **dict.fromkeys(_SIMPLE, elementwise(1.0)),
    **dict.fromkeys(TRANSCENDENTAL, elementwise(c.TRANSCENDENTAL)),
    **dict.fromkeys(_RANDOM, random_mask),
    **dict.fromkeys(_NORMS, norm),
    **dict.fromkeys(_REDUCTIONS, reduction),
    **dict.fromkeys(_POOLING, pooling),
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), softmax),
    **dict.fromkeys(_LOSSES, loss),
    **dict.fromkeys(_GATHERS, gather),
    **dict.fromkeys(_SCATTERS, scatter),
    **dict.fromkeys(_COPIES, copy),
    **dict.fromkeys(PERMUTATIONS, permutation),
    **dict.fromkeys(("topk", "sort", "argsort"), sort),
}
