"""What the device computes with in place of 64-bit and bfloat16 numbers, which it lacks."""

import torch

DEVICE_DTYPES = {
    torch.float64: torch.float32,
    torch.bfloat16: torch.float32,
    torch.int64: torch.int32,
}


def device_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which the device holds values of `dtype`."""
    return DEVICE_DTYPES.get(dtype, dtype)
