"""Sample answers of gpu_feeding, right and wrong."""

from grader.samples import error, right, wrong

LOADER = """
def make_loader(dataset, batch, workers, cuda):
    return DataLoader(dataset, {arguments})
"""

ANSWERS = [
    right(
        "x1",
        """
        def epoch_ms(batches, load, compute, workers):
            if not workers:
                return (load + compute) * batches
            total = load + compute
            for _ in range(batches - 1):
                total += load / workers if load / workers > compute else compute
            return total
        """,
    ),
    right(
        "x1",
        """
        def epoch_ms(batches, load, compute, workers):
            between = max(load / workers, compute) if workers else load + compute
            return load + between * (batches - 1) + compute
        """,
    ),
    wrong(
        "x1",
        "happen at the same time",
        """
        def epoch_ms(batches, load, compute, workers):
            return batches * (load + compute)
        """,
    ),
    wrong(
        "x1",
        "have nothing beside them",
        """
        def epoch_ms(batches, load, compute, workers):
            if workers == 0:
                return batches * (load + compute)
            return batches * max(load / workers, compute)
        """,
    ),
    wrong(
        "x1",
        "the workers share the loading",
        """
        def epoch_ms(batches, load, compute, workers):
            if workers == 0:
                return batches * (load + compute)
            return load + (batches - 1) * max(load, compute) + compute
        """,
    ),
    wrong(
        "x1",
        "the computation is missing",
        """
        def epoch_ms(batches, load, compute, workers):
            return batches * load
        """,
    ),
    right(
        "x2",
        LOADER.format(
            arguments="batch, False, num_workers=workers, pin_memory=cuda, persistent_workers=bool(workers)"
        ),
    ),
    right(
        "x2",
        """
        def make_loader(dataset, batch, workers, cuda):
            settings = {"num_workers": workers, "persistent_workers": True} if workers else {}
            return DataLoader(dataset, batch_size=batch, pin_memory=cuda, **settings)
        """,
    ),
    wrong("x2", "without it loading blocks training", LOADER.format(arguments="batch_size=batch")),
    wrong(
        "x2",
        "without it every epoch starts its processes anew",
        LOADER.format(arguments="batch_size=batch, num_workers=workers, pin_memory=cuda"),
    ),
    wrong(
        "x2",
        "without a GPU it only costs",
        LOADER.format(
            arguments="batch_size=batch, num_workers=workers, pin_memory=True, persistent_workers=workers > 0"
        ),
    ),
    wrong(
        "x2",
        "whatever the number of workers",
        LOADER.format(
            arguments="batch_size=batch * max(1, workers), num_workers=workers, pin_memory=cuda, "
            "persistent_workers=workers > 0"
        ),
    ),
    error(
        "x2",
        "persistent_workers option needs num_workers > 0",
        LOADER.format(
            arguments="batch_size=batch, num_workers=workers, pin_memory=cuda, persistent_workers=True"
        ),
    ),
    right(
        "x3",
        """
        def my_share(records, worker, workers):
            return [number for number in range(records) if number % workers == worker]
        """,
    ),
    right(
        "x3",
        """
        def my_share(records, worker, workers):
            start = records * worker // workers
            stop = records * (worker + 1) // workers
            return range(start, stop)
        """,
    ),
    wrong(
        "x3",
        "the shares overlap",
        """
        def my_share(records, worker, workers):
            return range(records)
        """,
    ),
    wrong(
        "x3",
        "the rest belongs to somebody",
        """
        def my_share(records, worker, workers):
            size = records // workers
            return range(worker * size, (worker + 1) * size)
        """,
    ),
    wrong(
        "x3",
        "spread the rest",
        """
        def my_share(records, worker, workers):
            size = records // workers
            stop = records if worker == workers - 1 else (worker + 1) * size
            return range(worker * size, stop)
        """,
    ),
    right(
        "x4",
        """
        def explain(batches, images_per_second):
            steps = [1000 * batch / rate for batch, rate in zip(batches, images_per_second)]
            slope = (steps[-1] - steps[0]) / (batches[-1] - batches[0])
            return steps[0] - slope * batches[0], slope
        """,
    ),
    right(
        "x4",
        """
        def explain(batches, images_per_second):
            lines = numpy.stack([numpy.ones(len(batches)), numpy.array(batches, dtype=float)], axis=1)
            steps = numpy.array([1000 * batch / rate for batch, rate in zip(batches, images_per_second)])
            fixed, per_image = numpy.linalg.lstsq(lines, steps, rcond=None)[0]
            return fixed, per_image
        """,
    ),
    wrong(
        "x4",
        "polyfit gives the slope first",
        """
        def explain(batches, images_per_second):
            steps = 1000 * numpy.array(batches) / numpy.array(images_per_second)
            return numpy.polyfit(batches, steps, 1)
        """,
    ),
    wrong(
        "x4",
        "these are seconds",
        """
        def explain(batches, images_per_second):
            steps = numpy.array(batches) / numpy.array(images_per_second)
            return numpy.polyfit(batches, steps, 1)[::-1]
        """,
    ),
    wrong(
        "x4",
        "not to images per second",
        """
        def explain(batches, images_per_second):
            slope, height = numpy.polyfit(batches, images_per_second, 1)
            return height, slope
        """,
    ),
    wrong(
        "x4",
        "return both",
        """
        def explain(batches, images_per_second):
            return 1000 * batches[0] / images_per_second[0]
        """,
    ),
]
