"""Operations, and ways of using them, that the device lacks: refused when a model is compiled.

What is here follows the vendor's list of supported operations (PopTorch 3.3 user guide, "IPU supported
operations") and its remarks on each.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from poptorch.capture.aliasing import aliases
from poptorch.capture.source import located, source_of
from poptorch.errors import Error
from poptorch.rules.refusals import operation_name

# Families of ATen operations without an entry in the vendor's list.
UNSUPPORTED = frozenset(
    [
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "adaptive_max_pool3d",
        "angle",
        "bessel_i0",
        "cholesky",
        "cholesky_inverse",
        "cholesky_solve",
        "complex",
        "conj",
        "cummax",
        "cummin",
        "det",
        "diag_embed",
        "digamma",
        "erfinv",
        "fft_fft",
        "fft_fft2",
        "fft_fftn",
        "fft_ifft",
        "fft_ifft2",
        "fft_ifftn",
        "fft_irfft",
        "fft_irfft2",
        "fft_irfftn",
        "fft_rfft",
        "fft_rfft2",
        "fft_rfftn",
        "fold",
        "fractional_max_pool2d",
        "fractional_max_pool3d",
        "geqrf",
        "grid_sampler",
        "grid_sampler_2d",
        "grid_sampler_3d",
        "histc",
        "histogram",
        "im2col",
        "col2im",
        "inverse",
        "istft",
        "kthvalue",
        "lgamma",
        "linalg_cholesky",
        "linalg_cond",
        "linalg_det",
        "linalg_eig",
        "linalg_eigh",
        "linalg_eigvals",
        "linalg_eigvalsh",
        "linalg_inv",
        "linalg_lstsq",
        "linalg_lu",
        "linalg_lu_factor",
        "linalg_matrix_exp",
        "linalg_matrix_power",
        "linalg_pinv",
        "linalg_qr",
        "linalg_slogdet",
        "linalg_solve",
        "linalg_svd",
        "linalg_svdvals",
        "logcumsumexp",
        "logdet",
        "lu_solve",
        "lu_unpack",
        "masked_select",
        "matrix_exp",
        "max_unpool2d",
        "max_unpool3d",
        "mode",
        "multinomial",
        "mvlgamma",
        "nanmedian",
        "nonzero",
        "ormqr",
        "pdist",
        "pinverse",
        "poisson",
        "polygamma",
        "qr",
        "quantile",
        "nanquantile",
        "renorm",
        "searchsorted",
        "slogdet",
        "stft",
        "svd",
        "triangular_solve",
        "unique",
        "unique_consecutive",
        "unique_dim",
        "view_as_complex",
        "view_as_real",
    ]
)


def check_supported(graph: fx.Graph) -> None:
    """Error for the first operation that the device lacks, or can't do with the arguments it has."""
    missing = [node for node in graph.nodes if operation_name(node) in UNSUPPORTED]
    if missing:
        raise _unsupported(missing)
    for node in graph.nodes:
        rule = _RULES.get(operation_name(node))
        reason = rule(_Call(node)) if rule else None
        if reason:
            raise located(f"aten::{operation_name(node)}: {reason}", source_of(node))
        if _writes_to_stepped_slice(node):
            raise located(
                "In-place modification of slices with step size other than 1 is not supported. Compute the "
                "new values and put the tensor together with torch.where or torch.stack.",
                source_of(node),
            )


def _unsupported(nodes: list[fx.Node]) -> Error:
    names = sorted({f"aten::{operation_name(node)}" for node in nodes})
    return located(
        f"Unsupported ops found in compiled model: [{', '.join(names)}]. The device has no such operation. "
        "Write it with supported ones, do it on the host before or after the model, or in inference with "
        "poptorch.CPU.",
        source_of(nodes[0]),
    )


class _Call:
    """Arguments of a node by the names in its schema."""

    def __init__(self, node: fx.Node):
        self._node = node

    def __getattr__(self, name: str) -> Any:
        for position, argument in enumerate(self._node.target._schema.arguments):
            if argument.name == name:
                if position < len(self._node.args):
                    return self._node.args[position]
                return self._node.kwargs.get(name, argument.default_value)
        return None

    def value(self, name: str) -> torch.Tensor:
        """Shape and type of a tensor argument."""
        return getattr(self, name).meta["val"]

    def uses_result(self, index: int) -> bool:
        """Whether the index-th of several results is used."""
        return any(user.args[1] == index and user.users for user in self._node.users if len(user.args) > 1)


def _writes_to_stepped_slice(node: fx.Node) -> bool:
    for written in (source for source, is_write in aliases(node) if is_write):
        while aliases(written):
            if operation_name(written) == "slice" and (_Call(written).step or 1) != 1:
                return True
            written = aliases(written)[0][0]
    return False


def _no_class_weights(call: _Call) -> str | None:
    if call.weight is not None:
        return (
            "the weight argument, one weight a class, is not supported. Multiply the unreduced loss instead."
        )
    return None


def _no_padding_index(call: _Call) -> str | None:
    if call.padding_idx is not None and call.padding_idx >= 0:
        return "padding_idx is not supported. Leave it out, and mask the padded positions."
    return None


def _sorted_only(call: _Call) -> str | None:
    return "sorted=False is not supported; use sorted=True." if call.sorted is False else None


def _affine_only(call: _Call) -> str | None:
    if call.weight is None:
        return (
            "normalisation without weight and bias is not supported; make the layer with affine=True "
            "(elementwise_affine=True for LayerNorm)."
        )
    return None


def _no_dilation(call: _Call) -> str | None:
    if any(dilation != 1 for dilation in call.dilation or ()):
        return f"dilation {list(call.dilation)} is not supported in transposed convolutions."
    return None


def _no_indices(call: _Call) -> str | None:
    if call.uses_result(1):
        return (
            "return_indices=True is not supported: the device doesn't return where the largest elements are."
        )
    return None


def _one_plain_layer(call: _Call) -> str | None:
    if call.num_layers != 1:
        return f"num_layers={call.num_layers} is not supported; stack layers of one each."
    if call.bidirectional:
        return "bidirectional=True is not supported; run a second layer on the flipped sequence."
    if call.dropout and call.train:
        return f"dropout={call.dropout} inside the layer is not supported; put nn.Dropout between layers."
    return None


def _with_bias(call: _Call) -> str | None:
    if not call.has_biases:
        return "bias=False is supported for nn.GRU only."
    return _one_plain_layer(call)


def _uniform_whole_factors(call: _Call) -> str | None:
    size, target = call.value("input" if call.input is not None else "self").shape[2:], call.output_size
    target = target or [
        int(edge * factor) for edge, factor in zip(size, call.scale_factors or (), strict=True)
    ]
    factors = {new / old for new, old in zip(target, size, strict=True)}
    if len(factors) > 1 or any(factor != int(factor) for factor in factors):
        return f"from {list(size)} to {list(target)}: only one whole factor for all dimensions is supported."
    return None


def _reduced_ctc(call: _Call) -> str | None:
    if call.reduction == 0:
        return 'reduction="none" is not supported; use "mean" or "sum".'
    if call.value("targets").dim() != 2:
        return "targets must be 2-d (batch, length): concatenated targets are not supported."
    return None


def _no_spectral_norm(call: _Call) -> str | None:
    if call.ord in (2, -2, "nuc") and call.dim and len(call.dim) == 2:
        return f"the matrix norm {call.ord!r} is not supported; use 'fro', 1 or inf."
    return None


_RULES: dict[str, Callable[[_Call], str | None]] = {
    "cross_entropy_loss": _no_class_weights,
    "nll_loss": _no_class_weights,
    "nll_loss_nd": _no_class_weights,
    "nll_loss2d": _no_class_weights,
    "embedding": _no_padding_index,
    "embedding_bag": _no_padding_index,
    "topk": _sorted_only,
    "batch_norm": _affine_only,
    "layer_norm": _affine_only,
    "group_norm": _affine_only,
    "conv_transpose1d": _no_dilation,
    "conv_transpose2d": _no_dilation,
    "conv_transpose3d": _no_dilation,
    "max_pool1d_with_indices": _no_indices,
    "max_pool2d_with_indices": _no_indices,
    "max_pool3d_with_indices": _no_indices,
    "lstm": _with_bias,
    "rnn_tanh": _with_bias,
    "rnn_relu": _with_bias,
    "gru": _one_plain_layer,
    "upsample_bilinear2d": _uniform_whole_factors,
    "ctc_loss": _reduced_ctc,
    "linalg_matrix_norm": _no_spectral_norm,
    "linalg_norm": _no_spectral_norm,
}
