"""Hidden cases of ipu_feeding: other times and sizes than the visible ones."""

CASES = {
    "x1": [
        {"host": 0.3, "device": 7.5, "replicas": 3, "asynchronous": False},
        {"host": 0.3, "device": 7.5, "replicas": 16, "asynchronous": True},
        {"host": 4.0, "device": 1.0, "replicas": 8, "asynchronous": True},
    ],
    "x2": [
        {"images": 90, "micro_batch": 3, "device_iterations": 5, "workers": 3},
        {"images": 90, "micro_batch": 9, "device_iterations": 1, "workers": 1},
    ],
    "x3": [
        {"images": 24320, "micro_batch": 2, "accumulation": 40, "replicas": 8, "calls": 10},
        {"images": 24320, "micro_batch": 2, "accumulation": 60, "replicas": 8, "calls": 30},
        {"images": 7, "micro_batch": 1, "accumulation": 1, "replicas": 1, "calls": 7},
    ],
    "x4": [
        {"host": 1.474, "device": 2.136, "replicas": [1, 2, 4, 8]},
        {"host": 30.0, "device": 0.4, "replicas": [1, 3]},
    ],
}
