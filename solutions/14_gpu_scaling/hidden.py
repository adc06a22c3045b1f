"""Hidden cases of gpu_scaling: other shards, sizes and throughputs than the visible ones."""

CASES = {
    "x1": [{"rows": [1, 9], "seed": 5}, {"rows": [7], "seed": 6}, {"rows": [2, 2, 2, 11], "seed": 7}],
    "x2": [
        {"parameters": 20590000, "bytes_each": 4, "processes": 8},
        {"parameters": 34000, "bytes_each": 2, "processes": 3},
    ],
    "x3": [{"rows": 101, "processes": 5}, {"rows": 64, "processes": 8}, {"rows": 31, "processes": 1}],
    "x4": [
        {"images_per_second": {"1": 50, "2": 99, "4": 190, "8": 360, "16": 500}, "target": 0.85},
        {"images_per_second": {"1": 50, "2": 60}, "target": 0.9},
    ],
}
