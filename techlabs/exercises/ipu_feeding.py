"""Exercises of the lab ipu_feeding: what limits the throughput of an IPU, and how to feed it."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch.utils.data import TensorDataset

import poptorch
from techlabs.exercise import Exercise, Observation, Wrong, cause_of


class TimePerImage(Exercise):
    """x1: milliseconds an image when host and IPUs take turns, and when they work side by side."""

    name = "x1"
    title = "ms_per_image says what an image costs, with a synchronous loader and an asynchronous one"
    hints = (
        "The host prepares every image, however many replicas there are. What do the replicas share?",
        "Replicas divide the device's time. Taking turns adds the two times; side by side, the slower one "
        "sets the pace.",
        "device = device / replicas; synchronous: host + device; asynchronous: max(..., ...).",
    )
    cases = (
        {"host": 1.5, "device": 2.0, "replicas": 1, "asynchronous": False},
        {"host": 1.5, "device": 2.0, "replicas": 4, "asynchronous": False},
        {"host": 1.5, "device": 9.0, "replicas": 2, "asynchronous": True},
        {"host": 1.5, "device": 2.0, "replicas": 4, "asynchronous": True},
    )

    def observe(self, answer: Any, **case: Any) -> Observation:
        """`answer` is ms_per_image(host, device, replicas, asynchronous)."""
        return {"ms": answer(**case)}

    def judge(self, seen: Observation, host: float, device: float, replicas: int, asynchronous: bool) -> None:
        """The time; the cause by the formula that gives the wrong one."""
        ms, shared = seen["ms"], device / replicas
        expected = max(host, shared) if asynchronous else host + shared
        if isinstance(ms, (int, float)) and abs(ms - expected) < 1e-9:
            return
        causes = {
            host + shared: "asynchronous: host and IPU work side by side, so the slower one counts alone.",
            (host + device) / replicas: "replicas share the device's time; the host is one for all of them.",
            max(host, device): "the replicas share the device's time.",
            host + device: "the replicas share the device's time.",
        }
        raise Wrong(
            f"{expected:g} ms for host {host:g}, device {device:g}, {replicas} replicas, "
            f"asynchronous={asynchronous}",
            "nothing" if ms is None else f"{ms}",
            cause_of(
                ms, causes, 1e-9, "synchronous: host + device / replicas; asynchronous: the larger of both."
            ),
        )


class OverlapLoading(Exercise):
    """x2: a poptorch.DataLoader that collects the next call while the IPU works on this one."""

    name = "x2"
    title = "the loader collects the next call while the IPU runs this one"
    hints = (
        "The loader of ipu_first, with two arguments more: one names a mode, one a number of processes.",
        "mode=poptorch.DataLoaderMode.... and num_workers=.... The mode starts a process that collects whole "
        "calls; the workers load images for it.",
        "poptorch.DataLoader(options, dataset, batch_size=..., shuffle=True, num_workers=..., "
        "mode=poptorch.DataLoaderMode.Async).",
    )
    cases = (
        {"images": 64, "micro_batch": 4, "device_iterations": 3, "workers": 1},
        {"images": 64, "micro_batch": 2, "device_iterations": 7, "workers": 2},
    )

    def observe(
        self, answer: Any, images: int, micro_batch: int, device_iterations: int, workers: int
    ) -> Observation:
        """`answer` is make_loader(dataset, micro_batch, device_iterations, workers).

        A recorder takes the loader's place: it notes what was asked for and starts no processes.
        """
        dataset = TensorDataset(torch.arange(images))
        with mock.patch.object(poptorch, "DataLoader", _Recorder):
            loader = answer(dataset, micro_batch, device_iterations, workers)
        if not isinstance(loader, _Recorder):
            return {"kind": type(loader).__name__}
        return {"kind": "poptorch.DataLoader", **loader.asked}

    def judge(
        self, seen: Observation, images: int, micro_batch: int, device_iterations: int, workers: int
    ) -> None:
        """Each setting in turn."""
        if seen["kind"] != "poptorch.DataLoader":
            raise Wrong("a poptorch.DataLoader", seen["kind"], "build it with poptorch.DataLoader(...).")
        expected = {
            "device_iterations": (
                device_iterations,
                "set options.deviceIterations first.",
            ),
            "batch_size": (micro_batch, "batch_size is the micro-batch: the loader multiplies."),
            "num_workers": (workers, "num_workers=workers: without it one process loads all images."),
            "shuffle": (True, "training wants a new order in every epoch: shuffle=True."),
            "mode": ("Async", "mode=poptorch.DataLoaderMode.Async: the default collects between the calls."),
        }
        for setting, (value, cause) in expected.items():
            if seen[setting] != value:
                raise Wrong(f"{setting} {value}", f"{seen[setting]}", cause)


class _Recorder(poptorch.DataLoader):
    """A loader that notes what was asked of it, and is itself a synchronous one."""

    def __init__(self, options: Any, dataset: Any, batch_size: int = 1, **asked: Any):
        mode = asked.pop("mode", poptorch.DataLoaderMode.Sync)
        self.asked = {
            "device_iterations": options.device_iterations,
            "batch_size": batch_size,
            "num_workers": asked.pop("num_workers", 0),
            "shuffle": bool(asked.get("shuffle", False)),
            "mode": mode.name,
        }
        asked.pop("async_options", None)
        super().__init__(options, dataset, batch_size, **asked)


class FitTheEpoch(Exercise):
    """x3: the most device iterations that still leave an epoch its calls."""

    name = "x3"
    title = "most_iterations keeps an epoch from having no calls at all"
    hints = (
        "Count the images of one call, then the calls of one epoch. Which of the factors is yours to choose?",
        "With D device iterations an epoch has images // (micro_batch * accumulation * replicas * D) calls. "
        "Find the largest D that gives `calls` of them.",
        "images // (micro_batch * accumulation * replicas * calls); when that is 0, not even D = 1 fits: "
        "raise ValueError.",
    )
    cases = (
        {"images": 1437, "micro_batch": 16, "accumulation": 2, "replicas": 1, "calls": 10},
        {"images": 1216, "micro_batch": 2, "accumulation": 20, "replicas": 4, "calls": 3},
        {"images": 100, "micro_batch": 16, "accumulation": 4, "replicas": 2, "calls": 1},
    )

    def observe(self, answer: Any, **case: int) -> Observation:
        """`answer` is most_iterations(images, micro_batch, accumulation, replicas, calls) -> int."""
        try:
            return {"iterations": answer(**case)}
        except ValueError:
            return {"iterations": "ValueError"}

    def judge(
        self, seen: Observation, images: int, micro_batch: int, accumulation: int, replicas: int, calls: int
    ) -> None:
        """The largest number, or ValueError where there is none."""
        got, each = seen["iterations"], micro_batch * accumulation * replicas
        most = images // (each * calls)
        asked = (
            f"{images} images, micro-batch {micro_batch}, accumulation {accumulation}, {replicas} replicas, "
            f"{calls} calls"
        )
        if most == 0:
            if got != "ValueError":
                raise Wrong(
                    f"ValueError for {asked}: one iteration takes {each} images",
                    f"{got}",
                    "0 device iterations would be an epoch without a call: raise ValueError instead.",
                )
            return
        if got == most and type(got) is int:
            return
        cause = "the largest D for which images // (images of one call) is still `calls` or more."
        if got == "ValueError":
            cause = "raise ValueError only where not even one device iteration fits."
        elif isinstance(got, float):
            cause = "use // to divide: the number of iterations is an int."
        elif got == images // (micro_batch * calls):
            cause = "accumulation and replicas take images too."
        elif isinstance(got, int) and got > most:
            cause = f"with {got} an epoch has {images // (each * got)} calls."
        elif isinstance(got, int):
            cause = f"with {most} there would be {images // (each * most)} calls, which is enough."
        raise Wrong(f"{most} for {asked}", "nothing" if got is None else f"{got}", cause)


class ExplainPlateau(Exercise):
    """x4: host and device time of an image, from throughputs at several numbers of replicas."""

    name = "x4"
    title = "explain finds the host's and the device's time behind a plateau"
    hints = (
        "Throughput is a quotient. Turn it round: how many milliseconds does one image take?",
        "1000 / images_per_second = host + device / replicas. Over 1 / replicas this is a straight line: its "
        "height at 0 is the host's time, its slope the device's.",
        "device, host = numpy.polyfit(1 / replicas, milliseconds, 1); return host, device.",
    )
    cases = (
        {"host": 2.0, "device": 5.0, "replicas": [1, 2, 4]},
        {"host": 0.25, "device": 8.0, "replicas": [1, 2, 4, 8, 16]},
    )

    def observe(self, answer: Any, host: float, device: float, replicas: list[int]) -> Observation:
        """`answer` is explain(replicas, images_per_second) -> (host ms, device ms) an image."""
        found = answer(list(replicas), [1000 / (host + device / each) for each in replicas])
        try:
            first, second = (float(value) for value in found)
        except (TypeError, ValueError):
            return {"found": None, "kind": type(found).__name__}
        return {"found": [first, second]}

    def judge(self, seen: Observation, host: float, device: float, replicas: list[int]) -> None:
        """Both times, to one part in a thousand."""
        if seen["found"] is None:
            raise Wrong("two numbers: host ms, device ms", f"a {seen['kind']}", "return both, in that order.")
        expected = [host, device]

        def equal(found: list[float]) -> bool:
            return all(abs(got - want) < 1e-3 * want for got, want in zip(found, expected))

        if equal(seen["found"]):
            return
        cause = "fit a straight line to milliseconds an image over 1 / replicas."
        if equal(seen["found"][::-1]):
            cause = "the order is host first: polyfit gives the slope, the device's time, first."
        elif equal([1000 * value for value in seen["found"]]):
            cause = "these are seconds: the answer is in milliseconds."
        raise Wrong(
            f"host {host:g} ms, device {device:g} ms",
            " and ".join(f"{value:.4g}" for value in seen["found"]),
            cause,
        )


EXERCISES = (TimePerImage(), OverlapLoading(), FitTheEpoch(), ExplainPlateau())
