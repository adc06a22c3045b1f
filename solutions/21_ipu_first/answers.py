"""Sample answers of ipu_first, right and wrong."""

from grader.samples import error, right, wrong

TRAIN = """
def train_and_test(model, train_loader, test_loader):
    optimizer = poptorch.optim.AdamW(model.parameters(), lr={lr})
    trainer = poptorch.trainingModel(model, train_loader.options, optimizer)
    for _ in range({epochs}):
        for images, labels in train_loader:
            scores, loss = trainer(images, labels)
    {trained}
    model.eval()
    tester = poptorch.inferenceModel(model, test_loader.options)
    right = [tester(images).argmax(1) == labels for images, labels in test_loader]
    {tested}
    return {result}
"""


def trained(
    lr=0.004,
    epochs=6,
    trained="trainer.detachFromDevice()",
    tested="tester.detachFromDevice()",
    result="torch.cat(right).float().mean().item(), trainer, tester",
):
    """train_and_test with one thing changed."""
    return TRAIN.format(lr=lr, epochs=epochs, trained=trained, tested=tested, result=result)


ANSWERS = [
    right(
        "x1",
        """
        class DigitsNet(GpuNet):
            def forward(self, images, labels=None):
                scores = super().forward(images)
                if labels is None:
                    return scores
                loss = F.nll_loss(F.log_softmax(scores, dim=1), labels)
                return scores, loss
        """,
    ),
    right(
        "x1",
        """
        class DigitsNet(GpuNet):
            def __init__(self):
                super().__init__()
                self.loss = nn.CrossEntropyLoss()

            def forward(self, images, labels=None):
                scores = super().forward(images)
                return scores if labels is None else (scores, self.loss(scores, labels))
        """,
    ),
    wrong(
        "x1",
        "return both",
        """
        class DigitsNet(GpuNet):
            def forward(self, images, labels=None):
                scores = super().forward(images)
                if labels is None:
                    return scores
                return F.cross_entropy(scores, labels)
        """,
    ),
    wrong(
        "x1",
        "the order is scores, loss",
        """
        class DigitsNet(GpuNet):
            def forward(self, images, labels=None):
                scores = super().forward(images)
                if labels is None:
                    return scores
                return F.cross_entropy(scores, labels), scores
        """,
    ),
    wrong(
        "x1",
        "no softmax before it",
        """
        class DigitsNet(GpuNet):
            def forward(self, images, labels=None):
                scores = super().forward(images)
                if labels is None:
                    return scores
                return scores, F.cross_entropy(scores.softmax(1), labels)
        """,
    ),
    wrong(
        "x1",
        "keep the default reduction",
        """
        class DigitsNet(GpuNet):
            def forward(self, images, labels=None):
                scores = super().forward(images)
                if labels is None:
                    return scores
                return scores, F.cross_entropy(scores, labels, reduction="none")
        """,
    ),
    error(
        "x1",
        "loss",
        """
        class DigitsNet(GpuNet):
            def forward(self, images, labels=None):
                scores = super().forward(images)
                if labels is None:
                    return scores
                picked = scores.log_softmax(1).gather(1, labels.unsqueeze(1))
                return scores, -picked.mean()
        """,
    ),
    right(
        "x2",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options().deviceIterations(device_iterations)
            options.Training.gradientAccumulation(accumulation if training else 1)
            return poptorch.DataLoader(options, dataset, micro_batch, shuffle=training)
        """,
    ),
    right(
        "x2",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options()
            options.deviceIterations(device_iterations)
            if not training:
                return poptorch.DataLoader(options, dataset, batch_size=micro_batch)
            options.Training.gradientAccumulation(accumulation)
            return poptorch.DataLoader(options, dataset, batch_size=micro_batch, shuffle=True, drop_last=True)
        """,
    ),
    wrong(
        "x2",
        "torch's own loader",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            return DataLoader(dataset, micro_batch * device_iterations * accumulation, shuffle=training)
        """,
    ),
    wrong(
        "x2",
        "batch_size is the micro-batch alone",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options().deviceIterations(device_iterations)
            if training:
                options.Training.gradientAccumulation(accumulation)
            return poptorch.DataLoader(options, dataset, micro_batch * device_iterations, shuffle=training)
        """,
    ),
    wrong(
        "x2",
        "leave it out for testing",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options().deviceIterations(device_iterations)
            options.Training.gradientAccumulation(accumulation)
            return poptorch.DataLoader(options, dataset, micro_batch, shuffle=training)
        """,
    ),
    wrong(
        "x2",
        "deviceIterations(...) was not called",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options()
            if training:
                options.Training.gradientAccumulation(accumulation)
            return poptorch.DataLoader(options, dataset, micro_batch, shuffle=training)
        """,
    ),
    wrong(
        "x2",
        "shuffle should be True for training only",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options().deviceIterations(device_iterations)
            if training:
                options.Training.gradientAccumulation(accumulation)
            return poptorch.DataLoader(options, dataset, micro_batch)
        """,
    ),
    error(
        "x2",
        "frozen",
        """
        def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
            options = poptorch.Options()
            loader = poptorch.DataLoader(options, dataset, micro_batch, shuffle=training)
            options.deviceIterations(device_iterations)
            return loader
        """,
    ),
    right(
        "x3",
        """
        def fill_up(images, samples_per_call):
            calls = -(-len(images) // samples_per_call)
            rows = [i % len(images) for i in range(calls * samples_per_call)]
            return images[rows]
        """,
    ),
    right(
        "x3",
        """
        def fill_up(images, samples_per_call):
            missing = (samples_per_call - len(images) % samples_per_call) % samples_per_call
            last = images[-1:]
            return torch.cat([images] + [last] * missing)
        """,
    ),
    wrong(
        "x3",
        "fill up, don't cut off",
        """
        def fill_up(images, samples_per_call):
            return images[: len(images) // samples_per_call * samples_per_call]
        """,
    ),
    wrong(
        "x3",
        "when the rows fit already, add none",
        """
        def fill_up(images, samples_per_call):
            missing = samples_per_call - len(images) % samples_per_call
            return torch.cat([images, images[torch.arange(missing) % len(images)]])
        """,
    ),
    wrong(
        "x3",
        "take them again and again",
        """
        def fill_up(images, samples_per_call):
            missing = -len(images) % samples_per_call
            return torch.cat([images, images[:missing]])
        """,
    ),
    wrong(
        "x3",
        "repeat real ones",
        """
        def fill_up(images, samples_per_call):
            missing = -len(images) % samples_per_call
            return torch.cat([images, torch.zeros(missing, *images.shape[1:])])
        """,
    ),
    wrong(
        "x3",
        "put the filler behind",
        """
        def fill_up(images, samples_per_call):
            missing = -len(images) % samples_per_call
            return torch.cat([images[torch.arange(missing) % len(images)], images])
        """,
    ),
    right("x4", trained()),
    right("x4", trained(lr=0.002, epochs=10)),
    wrong("x4", "return all three", trained(result="torch.cat(right).float().mean().item()")),
    wrong("x4", "too few epochs", trained(epochs=1, lr=0.0001)),
    wrong("x4", "no batch of train_loader was used", trained(epochs=0, trained="pass")),
    wrong("x4", "more epochs than needed", trained(epochs=14)),
    wrong("x4", "trainer still attached", trained(trained="pass")),
    wrong("x4", "tester still attached", trained(tested="pass")),
    wrong("x4", "it's a fraction of 1", trained(result="0.99, trainer, tester")),
]
