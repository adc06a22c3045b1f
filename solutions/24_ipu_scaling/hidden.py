"""Hidden cases of ipu_scaling: other cuts, stages and times than the visible ones."""

CASES = {
    "x1": [{"cuts": [3], "seed": 5}, {"cuts": [1, 2, 4], "seed": 6}],
    "x2": [{"accumulation": 60, "stages": 4}, {"accumulation": 15, "stages": 8}],
    "x3": [
        {"stages": 2, "target": 0.95},
        {"stages": 3, "target": 0.2},
        {"stages": 16, "target": 0.8},
    ],
    "x4": [
        {"times": [21.0, 340.0, 2473.0, 1202.0, 399.0, 1412.0, 1551.0, 42.0], "ipus": 4},
        {"times": [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 4.0], "ipus": 3},
        {"times": [1.0, 2.0], "ipus": 1},
    ],
}
