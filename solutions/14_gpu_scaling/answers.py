"""Sample answers of gpu_scaling, right and wrong."""

from grader.samples import error, right, wrong

ANSWERS = [
    right(
        "x1",
        """
        def combine(gradients, rows):
            combined = torch.zeros_like(gradients[0])
            for gradient, number in zip(gradients, rows):
                combined += number * gradient
            return combined / sum(rows)
        """,
    ),
    right(
        "x1",
        """
        def combine(gradients, rows):
            share = torch.tensor(rows) / sum(rows)
            return torch.einsum("s,s...->...", share, torch.stack(gradients))
        """,
    ),
    wrong(
        "x1",
        "only when all shards have the same number of rows",
        """
        def combine(gradients, rows):
            return sum(gradients) / len(gradients)
        """,
    ),
    wrong(
        "x1",
        "this is the sum",
        """
        def combine(gradients, rows):
            return sum(gradients)
        """,
    ),
    wrong(
        "x1",
        "share of all rows",
        """
        def combine(gradients, rows):
            return gradients[0]
        """,
    ),
    wrong(
        "x1",
        "return one tensor",
        """
        def combine(gradients, rows):
            torch.stack(gradients).mean(0)
        """,
    ),
    right(
        "x2",
        """
        def bytes_sent(parameters, bytes_each, processes):
            part = parameters * bytes_each / processes
            return sum(part for _ in range(processes - 1)) * 2
        """,
    ),
    right(
        "x2",
        """
        def bytes_sent(parameters, bytes_each, processes):
            size = parameters * bytes_each
            return 2 * (size - size / processes)
        """,
    ),
    wrong(
        "x2",
        "a second n - 1 rounds",
        """
        def bytes_sent(parameters, bytes_each, processes):
            return (processes - 1) * parameters * bytes_each / processes
        """,
    ),
    wrong(
        "x2",
        "a round carries one n-th",
        """
        def bytes_sent(parameters, bytes_each, processes):
            return 2 * (processes - 1) * parameters * bytes_each
        """,
    ),
    wrong(
        "x2",
        "that is the limit for many processes",
        """
        def bytes_sent(parameters, bytes_each, processes):
            return 2 * parameters * bytes_each
        """,
    ),
    wrong(
        "x2",
        "these are numbers, not bytes",
        """
        def bytes_sent(parameters, bytes_each, processes):
            return 2 * (processes - 1) * parameters / processes
        """,
    ),
    right(
        "x3",
        """
        def my_rows(rows, rank, processes, epoch):
            generator = torch.Generator()
            generator.manual_seed(1000 + epoch)
            order = torch.randperm(rows, generator=generator).tolist()
            each = rows // processes
            return order[rank * each : (rank + 1) * each]
        """,
    ),
    right(
        "x3",
        """
        def my_rows(rows, rank, processes, epoch):
            import random

            order = list(range(rows))
            random.Random(epoch).shuffle(order)
            return [order[i] for i in range(rank, rows - rows % processes, processes)]
        """,
    ),
    wrong(
        "x3",
        "each process shuffled for itself",
        """
        def my_rows(rows, rank, processes, epoch):
            return torch.randperm(rows)[: rows // processes * processes][rank::processes].tolist()
        """,
    ),
    wrong(
        "x3",
        "drop what can't be shared",
        """
        def my_rows(rows, rank, processes, epoch):
            order = torch.randperm(rows, generator=torch.Generator().manual_seed(epoch))
            return order[rank::processes].tolist()
        """,
    ),
    wrong(
        "x3",
        "the seed has to change with the epoch",
        """
        def my_rows(rows, rank, processes, epoch):
            order = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
            return order[: rows // processes * processes][rank::processes].tolist()
        """,
    ),
    wrong(
        "x3",
        "shuffle before sharing",
        """
        def my_rows(rows, rank, processes, epoch):
            return list(range(rank, rows // processes * processes, processes))
        """,
    ),
    right(
        "x4",
        """
        def choose(images_per_second, target):
            best = 1
            for devices in sorted(images_per_second):
                if images_per_second[devices] >= target * devices * images_per_second[1]:
                    best = devices
            return best
        """,
    ),
    right(
        "x4",
        """
        def choose(images_per_second, target):
            def efficiency(devices):
                return images_per_second[devices] / images_per_second[1] / devices

            return max(filter(lambda devices: efficiency(devices) >= target, images_per_second))
        """,
    ),
    wrong(
        "x4",
        "the most images per second isn't the question",
        """
        def choose(images_per_second, target):
            return max(images_per_second, key=images_per_second.get)
        """,
    ),
    wrong(
        "x4",
        "a larger number of devices reaches the target too",
        """
        def choose(images_per_second, target):
            return 1
        """,
    ),
    wrong(
        "x4",
        "divide the throughput by devices",
        """
        def choose(images_per_second, target):
            return None
        """,
    ),
    error(
        "x4",
        "KeyError",
        """
        def choose(images_per_second, target):
            return images_per_second[0]
        """,
    ),
]
