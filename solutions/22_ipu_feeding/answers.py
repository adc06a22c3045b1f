"""Sample answers of ipu_feeding, right and wrong."""

from grader.samples import error, right, wrong

LOADER = """
def make_loader(dataset, micro_batch, device_iterations, workers):
    options = poptorch.Options().deviceIterations(device_iterations)
    return poptorch.DataLoader(options, dataset, {arguments})
"""

ANSWERS = [
    right(
        "x1",
        """
        def ms_per_image(host, device, replicas, asynchronous):
            times = [host, device / replicas]
            return max(times) if asynchronous else sum(times)
        """,
    ),
    right(
        "x1",
        """
        def ms_per_image(host, device, replicas, asynchronous):
            if not asynchronous:
                return (host * replicas + device) / replicas
            return host if host * replicas > device else device / replicas
        """,
    ),
    wrong(
        "x1",
        "so the slower one counts alone",
        """
        def ms_per_image(host, device, replicas, asynchronous):
            return host + device / replicas
        """,
    ),
    wrong(
        "x1",
        "the host is one for all of them",
        """
        def ms_per_image(host, device, replicas, asynchronous):
            return max(host, device / replicas) if asynchronous else (host + device) / replicas
        """,
    ),
    wrong(
        "x1",
        "the replicas share the device's time",
        """
        def ms_per_image(host, device, replicas, asynchronous):
            return max(host, device) if asynchronous else host + device
        """,
    ),
    right(
        "x2",
        LOADER.format(
            arguments="micro_batch, shuffle=True, num_workers=workers, mode=poptorch.DataLoaderMode.Async"
        ),
    ),
    right(
        "x2",
        """
        def make_loader(dataset, micro_batch, device_iterations, workers):
            options = poptorch.Options()
            options.deviceIterations(device_iterations)
            how = {"mode": poptorch.DataLoaderMode.Async, "num_workers": workers, "shuffle": True}
            return poptorch.DataLoader(options, dataset, batch_size=micro_batch, drop_last=True, **how)
        """,
    ),
    wrong(
        "x2",
        "the default collects between the calls",
        LOADER.format(arguments="micro_batch, shuffle=True, num_workers=workers"),
    ),
    wrong(
        "x2",
        "without it one process loads all images",
        LOADER.format(arguments="micro_batch, shuffle=True, mode=poptorch.DataLoaderMode.Async"),
    ),
    wrong(
        "x2",
        "a new order in every epoch",
        LOADER.format(arguments="micro_batch, num_workers=workers, mode=poptorch.DataLoaderMode.Async"),
    ),
    wrong(
        "x2",
        "the loader multiplies",
        LOADER.format(
            arguments="micro_batch * device_iterations, shuffle=True, num_workers=workers, "
            "mode=poptorch.DataLoaderMode.Async"
        ),
    ),
    wrong(
        "x2",
        "build it with poptorch.DataLoader",
        """
        def make_loader(dataset, micro_batch, device_iterations, workers):
            return torch.utils.data.DataLoader(dataset, micro_batch * device_iterations, num_workers=workers)
        """,
    ),
    right(
        "x3",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            iterations = 0
            while images // (micro_batch * accumulation * replicas * (iterations + 1)) >= calls:
                iterations += 1
            if not iterations:
                raise ValueError("too few images")
            return iterations
        """,
    ),
    right(
        "x3",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            a_call = images // calls
            each = micro_batch * accumulation * replicas
            if a_call < each:
                raise ValueError(f"one call has {a_call} images, one iteration takes {each}")
            return a_call // each
        """,
    ),
    wrong(
        "x3",
        "accumulation and replicas take images too",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            return images // (micro_batch * calls)
        """,
    ),
    wrong(
        "x3",
        "0 device iterations would be an epoch without a call",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            return images // (micro_batch * accumulation * replicas * calls)
        """,
    ),
    wrong(
        "x3",
        "the number of iterations is an int",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            return images / (micro_batch * accumulation * replicas * calls)
        """,
    ),
    wrong(
        "x3",
        "an epoch has",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            return images // (micro_batch * accumulation * replicas)
        """,
    ),
    error(
        "x3",
        "by zero",
        """
        def most_iterations(images, micro_batch, accumulation, replicas, calls):
            return 1 // 0
        """,
    ),
    right(
        "x4",
        """
        def explain(replicas, images_per_second):
            first, last = 1000 / images_per_second[0], 1000 / images_per_second[-1]
            device = (first - last) / (1 / replicas[0] - 1 / replicas[-1])
            return first - device / replicas[0], device
        """,
    ),
    right(
        "x4",
        """
        def explain(replicas, images_per_second):
            lines = numpy.array([[1.0, 1 / each] for each in replicas])
            milliseconds = numpy.array([1000 / rate for rate in images_per_second])
            return tuple(numpy.linalg.lstsq(lines, milliseconds, rcond=None)[0])
        """,
    ),
    wrong(
        "x4",
        "the order is host first",
        """
        def explain(replicas, images_per_second):
            return numpy.polyfit(1 / numpy.array(replicas), 1000 / numpy.array(images_per_second), 1)
        """,
    ),
    wrong(
        "x4",
        "these are seconds",
        """
        def explain(replicas, images_per_second):
            return numpy.polyfit(1 / numpy.array(replicas), 1 / numpy.array(images_per_second), 1)[::-1]
        """,
    ),
    wrong(
        "x4",
        "over 1 / replicas",
        """
        def explain(replicas, images_per_second):
            slope, height = numpy.polyfit(replicas, 1000 / numpy.array(images_per_second), 1)
            return height, slope
        """,
    ),
    wrong(
        "x4",
        "return both",
        """
        def explain(replicas, images_per_second):
            return 1000 / images_per_second[-1]
        """,
    ),
]
