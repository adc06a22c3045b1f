# ---
# jupyter:
#   techlabs:
#     name: ipu_first
#     title: Your first model on an IPU
#     minutes: 50
#     machine_seconds: 20
#     device: "IPU (PopTorch, real or emulated)"
#     needs: "11_gpu_first"
# ---

# %% [markdown]
# # Your first model on an IPU
#
# {{ facts }}
#
# **Situation.** The reader of sample slips works on a GPU. Your centre also has a rack of IPUs that few
# people use, and the operators ask: does the model run there, and what does the port cost? A port to
# PopTorch is ten steps. You make all ten, on the same digits, and meet the one that surprises everybody.
#
# **You will be able to**
#
# 1. build the model that the machine runs (exercise x1);
# 2. feed it, and say what one device call consumes (x2);
# 3. read a failure and repair its cause (x3);
# 4. train, let go of the machine, and test (x4).

# %% [markdown]
# ## Check your bench
#
# Step 1 of the port is an import. Everything else of PopTorch hangs on it.

# %%
import poptorch  # step 1
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

import techlabs
from techlabs import diagrams
from techlabs.data import digits

torch.manual_seed(0)
lab = techlabs.Lab("ipu_first")
techlabs.bench("ipu")

# %% [markdown]
# ## What you already know
#
# The model and the training of `11_gpu_first`, short and complete. Run it: it's what you port.


# %%
class GpuNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.out = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.out(x.flatten(1))


# %%
train_set, test_set = digits()
gpu_net = GpuNet()
optimizer = torch.optim.Adam(gpu_net.parameters(), lr=0.003)
for _ in tqdm(range(3), desc="plain PyTorch"):
    for images, labels in DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True):
        loss = F.cross_entropy(gpu_net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"last loss {loss.item():.3f}")

# %% [markdown]
# ## Predict
#
# On an IPU one call can do many batches before it returns. Three numbers multiply: the **micro-batch**
# that the graph is compiled for, the **gradient accumulation** (micro-batches for one weight update), and
# the **device iterations** (updates in one call).

# %%
lab.predict(
    "samples",
    "Micro-batch 16, accumulation 2, device iterations 4: how many images does one training call consume?",
    choices=[16, 32, 64, 128],
    answer=None,
)

# %%
if lab.predicted("samples"):
    options = poptorch.Options()
    options.deviceIterations(4)
    options.Training.gradientAccumulation(2)
    loader = poptorch.DataLoader(options, train_set, batch_size=16)
    print(loader.combinedBatchSize, "images a call,", len(loader), "calls an epoch")

# %% [markdown]
# ## How this machine is built

# %%
diagrams.ipu()

# %% [markdown]
# - Memory sits beside compute: 1472 tiles with 624 KiB each, 897 MiB in all, on a Mk2 IPU.
# - All tiles run one program, compiled ahead. So every shape is fixed before the first image arrives.
# - `forward` is traced once, with example data. Python in it doesn't run again: a `print` prints once.
# - The program is whole: forward, backward and weight update. So the loss has to be in it.
# - Weights live on the IPU while it trains. PopTorch copies them back when you read them.

# %% [markdown]
# ## Worked example: inference
#
# The model is the one you just trained. What differs from a GPU carries a comment.

# %% tags=["nbval-check-output"]
gpu_net.eval()  # the mode is compiled in, so set it before wrapping
inference = poptorch.inferenceModel(gpu_net)  # instead of gpu_net.to("cuda")
images = test_set.tensors[0][:32]
scores = inference(images)  # compiles at the first call, for 32 images; no images.to("cuda")
inference.detachFromDevice()  # an IPU belongs to one process: give it back

with torch.no_grad():
    same = torch.allclose(scores, gpu_net(images), atol=1e-4)
print("scores", tuple(scores.shape), "- the same as plain PyTorch:", same)
# > scores (32, 10) - the same as plain PyTorch: True

# %% [markdown]
# The whole port, and where you do it:
#
# | step | what | where |
# |---|---|---|
# | 1 | `import poptorch` | done |
# | 2 | `forward` returns scores and loss | x1 |
# | 3, 4 | `poptorch.Options`, `poptorch.DataLoader` | x2 |
# | 5, 6, 7 | `poptorch.optim`, `trainingModel`, `detachFromDevice` | x4 |
# | 8, 10 | `inferenceModel`, `detachFromDevice` again | x4 |
# | 9 | the test loader, with options of its own | x2 |

# %% [markdown]
# ## x1: the loss moves in (5 minutes)
#
# Step 2. With labels, `forward` returns `scores, loss`. Without labels it returns the scores, as before,
# since testing has no use for a loss. Replace the `raise` line.


# %% answer="x1"
class DigitsNet(GpuNet):
    def forward(self, images, labels=None):
        scores = super().forward(images)
        if labels is None:
            return scores
        ### BEGIN SOLUTION
        return scores, F.cross_entropy(scores, labels)
        ### END SOLUTION


# %% check="x1" points=2
lab.check("x1", DigitsNet)
### BEGIN HIDDEN TESTS
lab.grade("x1", DigitsNet)
### END HIDDEN TESTS

# %% [markdown]
# The `if` is decided while `forward` is traced: you get one program with a loss, for training, and
# another without, for testing. An `if` on a *value* could not be compiled.
#
# Stuck? `lab.hint("x1", 1)` to `lab.hint("x1", 3)`, and `lab.solution("x1")` after a try of your own.

# %% [markdown]
# ## x2: feed it (10 minutes)
#
# Steps 3, 4 and 9. Write `make_loader`: build `poptorch.Options`, set what is asked for, return a
# `poptorch.DataLoader`. The same function serves training (shuffled) and testing (in order). One of the
# factors makes no sense in testing: leave it at its default there.


# %% answer="x2"
def make_loader(dataset, micro_batch, device_iterations, accumulation, training):
    """A poptorch.DataLoader that feeds whole device calls."""
    ### BEGIN SOLUTION
    options = poptorch.Options()
    options.deviceIterations(device_iterations)
    if training:
        options.Training.gradientAccumulation(accumulation)
    return poptorch.DataLoader(options, dataset, batch_size=micro_batch, shuffle=training)
    ### END SOLUTION


# %% check="x2" points=3
lab.check("x2", make_loader)
### BEGIN HIDDEN TESTS
lab.grade("x2", make_loader)
### END HIDDEN TESTS

# %% [markdown]
# ## Break it on purpose
#
# 360 test images, 64 in one call: five calls and 40 images. On a GPU the short batch just runs. Look for
# the number that the message asks for.

# %%
options = poptorch.Options()
options.deviceIterations(4)
breaking = poptorch.inferenceModel(gpu_net, options)
breaking(test_set.tensors[0][:64])
try:
    breaking(test_set.tensors[0][320:])
except (poptorch.Error, AssertionError) as error:
    print(type(error).__name__, error, sep=": ")
breaking.detachFromDevice()

# %% [markdown]
# The program is compiled for 64 rows and for nothing else. `poptorch.DataLoader` avoids the error by
# dropping what doesn't fill a call: `drop_last` is on unless you turn it off. Good for training. In a
# test it loses 40 images without a word.
#
# ## x3: repair the cause (10 minutes)
#
# Write `fill_up`: append repeats of real images until the rows are whole calls. Later you ignore the
# results of the filler. Few images may have to be repeated more than once.


# %% answer="x3"
def fill_up(images, samples_per_call):
    """images [N, ...] with repeats behind them: the next multiple of samples_per_call rows."""
    ### BEGIN SOLUTION
    missing = -len(images) % samples_per_call
    filler = images[torch.arange(missing) % len(images)]
    return torch.cat([images, filler])
    ### END SOLUTION


# %% check="x3" points=2
lab.check("x3", fill_up)
### BEGIN HIDDEN TESTS
lab.grade("x3", fill_up)
### END HIDDEN TESTS

# %% [markdown]
# ## x4: train, let go, test (15 minutes)
#
# Steps 5, 6, 7, 8 and 10. You get a fresh model with the loss inside and two loaders; each carries its
# options as `loader.options`. `poptorch.trainingModel(model, options=..., optimizer=...)` is the twin of
# `inferenceModel`: call it with images and labels, and it does forward, backward and update in one.
# `poptorch.optim` has torch's optimizers. Asked for are
#
# - a test accuracy of 0.93 or more, measured on the IPU over the test loader;
# - at most 300 training calls;
# - trainer and tester both detached at the end.


# %% answer="x4"
def train_and_test(model, train_loader, test_loader):
    """Return the test accuracy, the training model and the inference model."""
    ### BEGIN SOLUTION
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.003)
    trainer = poptorch.trainingModel(model.train(), options=train_loader.options, optimizer=optimizer)
    for _ in tqdm(range(8), desc="training on the IPU"):
        for images, labels in train_loader:
            trainer(images, labels)
    trainer.detachFromDevice()

    tester = poptorch.inferenceModel(model.eval(), options=test_loader.options)
    correct = total = 0
    for images, labels in test_loader:
        correct += int((tester(images).argmax(1) == labels).sum())
        total += len(labels)
    tester.detachFromDevice()
    return correct / total, trainer, tester
    ### END SOLUTION


# %% check="x4" points=3
lab.check("x4", train_and_test)
### BEGIN HIDDEN TESTS
lab.grade("x4", train_and_test)
### END HIDDEN TESTS

# %% [markdown]
# ## Compare
#
# Your prediction, then the two machines side by side. The GPU's column comes from your `11_gpu_first`.

# %%
lab.compare("samples", actual=128)

# %%
if lab.passed("x1", "x2", "x4"):
    train_loader = make_loader(train_set, 16, device_iterations=4, accumulation=1, training=True)
    test_loader = make_loader(test_set, 12, device_iterations=5, accumulation=1, training=False)
    accuracy, trainer, tester = train_and_test(DigitsNet(), train_loader, test_loader)
    lab.keep(test_accuracy=round(accuracy, 3), samples_per_device_call=train_loader.combinedBatchSize)
lab.compare_machines("gpu_first", "ipu_first")

# %% [markdown]
# ## Key points
#
# - The IPU runs one program compiled ahead: shapes, mode and loss are all in it.
# - One call consumes micro-batch x accumulation x device iterations (x replicas, in a later lab).
# - What doesn't fill a call is dropped or filled up. In a test, dropping changes the result.
#
# **Talk to your neighbour.** The compilation of a large model takes minutes on a real IPU. Which of your
# habits with a GPU would make you compile again and again?
#
# **Where next.** The lab on feeding an IPU: why more device iterations help, and when they stop.

# %%
lab.exit_slip(
    clearest="",  # what is clear now that wasn't before?
    open_question="",  # what would you ask?
)
