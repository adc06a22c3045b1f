"""Sample answers of ipu_scaling, right and wrong."""

from grader.samples import error, right, wrong

ANSWERS = [
    right(
        "x1",
        """
        def split(model, cuts):
            ipu = 0
            for number, layer in enumerate(model.layers):
                if number in cuts:
                    ipu += 1
                    poptorch.BeginBlock(layer, ipu_id=ipu)
            return model
        """,
    ),
    right(
        "x1",
        """
        def split(model, cuts):
            for i, layer in enumerate(cuts):
                marked = poptorch.BeginBlock(model.layers[layer], f"piece{i + 1}", ipu_id=i + 1)
                model.layers[layer] = marked
            return model
        """,
    ),
    wrong(
        "x1",
        "a cut is missing",
        """
        def split(model, cuts):
            return model
        """,
    ),
    wrong(
        "x1",
        "a cut is missing",
        """
        def split(model, cuts):
            for layer in cuts:
                poptorch.BeginBlock(model.layers[layer], ipu_id=0)
            return model
        """,
    ),
    wrong(
        "x1",
        "return the model",
        """
        def split(model, cuts):
            for ipu, layer in enumerate(cuts, start=1):
                poptorch.BeginBlock(model.layers[layer], ipu_id=ipu)
        """,
    ),
    wrong(
        "x1",
        "must not change what it computes",
        """
        def split(model, cuts):
            for ipu, layer in enumerate(cuts, start=1):
                model.layers[layer].weight.data *= 0.5
                poptorch.BeginBlock(model.layers[layer], ipu_id=ipu)
            return model
        """,
    ),
    right(
        "x2",
        """
        def efficiency(accumulation, stages):
            idle = stages - 1
            return 1 - idle / (accumulation + idle)
        """,
    ),
    right(
        "x2",
        """
        def efficiency(accumulation, stages):
            steps = {micro_batch + stage for micro_batch in range(accumulation) for stage in range(stages)}
            return accumulation / len(steps)
        """,
    ),
    wrong(
        "x2",
        "stages - 1 idle steps",
        """
        def efficiency(accumulation, stages):
            return accumulation / (accumulation + stages)
        """,
    ),
    wrong(
        "x2",
        "divide the other way round",
        """
        def efficiency(accumulation, stages):
            return (accumulation + stages - 1) / accumulation
        """,
    ),
    wrong(
        "x2",
        "not a percentage",
        """
        def efficiency(accumulation, stages):
            return 100 * accumulation / (accumulation + stages - 1)
        """,
    ),
    right(
        "x3",
        """
        def least_accumulation(stages, target):
            for accumulation in range(2 * stages - 1, 10_000):
                if accumulation >= target * (accumulation + stages - 1):
                    return accumulation
        """,
    ),
    right(
        "x3",
        """
        def least_accumulation(stages, target):
            from fractions import Fraction
            from math import ceil

            share = Fraction(str(target))
            return max(2 * stages - 1, ceil(share * (stages - 1) / (1 - share)))
        """,
    ),
    wrong(
        "x3",
        "forward and backward",
        """
        def least_accumulation(stages, target):
            accumulation = stages
            while accumulation / (accumulation + stages - 1) < target:
                accumulation += 1
            return accumulation
        """,
    ),
    wrong(
        "x3",
        "the efficiency is",
        """
        def least_accumulation(stages, target):
            return 2 * stages - 1
        """,
    ),
    wrong(
        "x3",
        "a smaller number meets both conditions",
        """
        def least_accumulation(stages, target):
            return 9 * stages
        """,
    ),
    wrong(
        "x3",
        "return an int",
        """
        def least_accumulation(stages, target):
            return max(2 * stages - 1, target * (stages - 1) / (1 - target))
        """,
    ),
    right(
        "x4",
        """
        def balance(times, ipus):
            if ipus == 1:
                return [len(times)]
            best = None
            for first in range(1, len(times) - ipus + 2):
                rest = balance(times[first:], ipus - 1)
                edges = [0, first] + [first + sum(rest[: i + 1]) for i in range(len(rest))]
                slowest = max(sum(times[a:b]) for a, b in zip(edges, edges[1:]))
                if best is None or slowest < best[0]:
                    best = slowest, [first, *rest]
            return best[1]
        """,
    ),
    right(
        "x4",
        """
        def balance(times, ipus):
            choices = []
            for sizes in itertools.product(range(1, len(times) + 1), repeat=ipus):
                if sum(sizes) == len(times):
                    ends = list(itertools.accumulate(sizes))
                    pieces = [times[end - size : end] for size, end in zip(sizes, ends)]
                    choices.append((max(map(sum, pieces)), sizes))
            return min(choices)[1]
        """,
    ),
    wrong(
        "x4",
        "not their number",
        """
        def balance(times, ipus):
            return [len(times) // ipus] * ipus
        """,
    ),
    wrong(
        "x4",
        "try all cuts",
        """
        def balance(times, ipus):
            return [1] * (ipus - 1) + [len(times) - ipus + 1]
        """,
    ),
    wrong(
        "x4",
        "every IPU gets a block",
        """
        def balance(times, ipus):
            return [len(times)] + [0] * (ipus - 1)
        """,
    ),
    error(
        "x4",
        "list index out of range",
        """
        def balance(times, ipus):
            return times[ipus + 10]
        """,
    ),
]
