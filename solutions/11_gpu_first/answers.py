"""Sample answers of gpu_first, right and wrong."""

from grader.samples import error, right, wrong

# The constructor is given in the lab; the samples of x1 differ in forward alone.
NET = """
class DigitsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.out = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
"""

TRAIN = """
def train_and_test(model, train_set, test_set, device):
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr={lr})
    for _ in range({epochs}):
        for images, labels in DataLoader(train_set, batch_size={batch}, shuffle=True):
            optimizer.zero_grad()
            F.cross_entropy(model(images.to(device)), labels.to(device)).backward()
            {update}
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, labels in DataLoader(test_set, batch_size=100):
            correct += int((model(images.to(device)).argmax(1).cpu() == labels).sum())
    model.to("cpu")
    {result}
"""


def trained(
    lr=0.003, epochs=14, batch=64, update="optimizer.step()", result="return correct / len(test_set)"
):
    """train_and_test with one thing changed."""
    return TRAIN.format(lr=lr, epochs=epochs, batch=batch, update=update, result=result)


ANSWERS = [
    right(
        "x1",
        NET + "        x = self.conv2(x).relu()\n        return self.out(F.max_pool2d(x, 2).flatten(1))\n",
    ),
    right(
        "x1",
        NET
        + "        x = F.relu(F.max_pool2d(self.conv2(x), 2))\n"
        + "        return self.out(x.reshape(x.shape[0], -1))\n",
    ),
    wrong(
        "x1",
        "no return statement",
        NET + "        x = F.max_pool2d(F.relu(self.conv2(x)), 2)\n        self.out(x.flatten(1))\n",
    ),
    wrong(
        "x1",
        "ReLU or pooling is missing",
        NET + "        x = F.max_pool2d(self.conv2(x), 2)\n        return self.out(x.flatten(1))\n",
    ),
    wrong(
        "x1",
        "without softmax",
        NET
        + "        x = F.max_pool2d(F.relu(self.conv2(x)), 2)\n"
        + "        return self.out(x.flatten(1)).softmax(1)\n",
    ),
    wrong(
        "x1",
        "defined but not used",
        NET
        + "        x = x.mean(1, keepdim=True).repeat(1, 8, 1, 1)\n        return self.out(x.flatten(1))\n",
    ),
    error(
        "x1",
        "cannot be multiplied",
        NET + "        x = F.max_pool2d(F.relu(self.conv2(x)), 2)\n        return self.out(x.flatten())\n",
    ),
    right(
        "x2",
        """
        def make_loader(dataset, batch, training):
            if training:
                return DataLoader(dataset, batch, shuffle=True, drop_last=True)
            return DataLoader(dataset, batch)
        """,
    ),
    right(
        "x2",
        """
        def make_loader(dataset, batch, training):
            order = torch.utils.data.RandomSampler(dataset) if training else None
            return DataLoader(dataset, batch_size=batch, sampler=order, drop_last=bool(training))
        """,
    ),
    wrong(
        "x2",
        "images go untested",
        """
        def make_loader(dataset, batch, training):
            return DataLoader(dataset, batch_size=batch, shuffle=training, drop_last=True)
        """,
    ),
    wrong(
        "x2",
        "training drops the last, short batch",
        """
        def make_loader(dataset, batch, training):
            return DataLoader(dataset, batch_size=batch, shuffle=training)
        """,
    ),
    wrong(
        "x2",
        "shuffle should be True for training only",
        """
        def make_loader(dataset, batch, training):
            return DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=training)
        """,
    ),
    wrong(
        "x2",
        "the order was drawn only once",
        """
        def make_loader(dataset, batch, training):
            order = torch.randperm(len(dataset)).tolist() if training else range(len(dataset))
            return DataLoader(dataset, batch_size=batch, sampler=order, drop_last=training)
        """,
    ),
    wrong(
        "x2",
        "batch_size isn't `batch`",
        """
        def make_loader(dataset, batch, training):
            return DataLoader(dataset, batch_size=5, shuffle=training)
        """,
    ),
    right(
        "x3",
        """
        def flat_features(side, channels):
            return channels * (side // 4) ** 2
        """,
    ),
    right(
        "x3",
        """
        def flat_features(side, channels):
            picture = F.max_pool2d(F.max_pool2d(torch.zeros(1, channels, side, side), 2), 2)
            return picture.numel()
        """,
    ),
    wrong(
        "x3",
        "nn.Linear wants an int",
        """
        def flat_features(side, channels):
            return channels * (side / 4) ** 2
        """,
    ),
    wrong(
        "x3",
        "you counted one",
        """
        def flat_features(side, channels):
            return channels * (side // 2) ** 2
        """,
    ),
    wrong(
        "x3",
        "the side counts twice",
        """
        def flat_features(side, channels):
            return channels * (side // 4)
        """,
    ),
    wrong(
        "x3",
        "rounds down after each halving",
        """
        def flat_features(side, channels):
            return channels * round(side / 4 + 0.4) ** 2
        """,
    ),
    wrong(
        "x3",
        "halves both dimensions",
        """
        def flat_features(side, channels):
            return 128
        """,
    ),
    right("x4", trained()),
    right("x4", trained(lr=0.005, epochs=8, batch=32)),
    wrong("x4", "the weights never changed", trained(epochs=1, update="pass")),
    wrong("x4", "too few epochs", trained(epochs=2)),
    wrong("x4", "it's a fraction of 1", trained(result="return 100 * correct / len(test_set)")),
    wrong("x4", "more epochs than needed", trained(epochs=20)),
    wrong(
        "x4",
        "the next user needs the device",
        trained(result="model.train(); return correct / len(test_set)"),
    ),
    error(
        "x4",
        "optimizer got an empty parameter list",
        "def train_and_test(*args):\n    torch.optim.Adam([])\n",
    ),
]
