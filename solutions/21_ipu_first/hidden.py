"""Hidden cases of ipu_first: other sizes and seeds than the visible ones."""

CASES = {
    "x1": [{"rows": 1, "seed": 5}, {"rows": 14, "seed": 6}],
    "x2": [
        {"images": 90, "micro_batch": 3, "device_iterations": 1, "accumulation": 7, "training": True},
        {"images": 90, "micro_batch": 7, "device_iterations": 2, "accumulation": 3, "training": False},
        {"images": 90, "micro_batch": 2, "device_iterations": 5, "accumulation": 1, "training": True},
    ],
    "x3": [
        {"rows": 1, "samples_per_call": 7},
        {"rows": 360, "samples_per_call": 64},
        {"rows": 30, "samples_per_call": 6},
    ],
    "x4": [{"seed": 11, "micro_batch": 24, "test_batch": 9}],
}
