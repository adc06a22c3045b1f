"""Hidden cases of gpu_feeding: other sizes and times than the visible ones."""

CASES = {
    "x1": [
        {"batches": 1, "load": 4.0, "compute": 3.0, "workers": 2},
        {"batches": 23, "load": 12.0, "compute": 2.5, "workers": 4},
        {"batches": 23, "load": 1.5, "compute": 2.5, "workers": 0},
    ],
    "x2": [
        {"images": 12, "batch": 5, "workers": 1, "cuda": False},
        {"images": 12, "batch": 3, "workers": 0, "cuda": True},
    ],
    "x3": [{"records": 101, "workers": 7}, {"records": 6, "workers": 6}, {"records": 0, "workers": 2}],
    "x4": [
        {"fixed": 34.5, "per_image": 0.09, "batches": [10, 128, 256, 512]},
        {"fixed": 0.7, "per_image": 1.3, "batches": [1, 2]},
    ],
}
