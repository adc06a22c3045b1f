"""Hidden cases of gpu_first: other sizes and seeds than the visible ones."""

CASES = {
    "x1": [{"rows": 1, "seed": 5}, {"rows": 31, "seed": 6}],
    "x2": [
        {"images": 23, "batch": 5, "training": False},
        {"images": 23, "batch": 5, "training": True},
        {"images": 40, "batch": 8, "training": False},
    ],
    "x3": [
        {"side": 31, "channels": 3},
        {"side": 7, "channels": 11},
        {"side": 64, "channels": 1},
    ],
    "x4": [{"seed": 11}],
}
