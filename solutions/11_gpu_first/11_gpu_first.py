# ---
# jupyter:
#   techlabs:
#     name: gpu_first
#     title: Your first model on a GPU
#     minutes: 35
#     machine_seconds: 15
#     device: "GPU (CUDA, or the CPU in its place)"
#     needs: "PyTorch: modules, tensors, a training loop"
# ---

# %% [markdown]
# # Your first model on a GPU
#
# {{ facts }}
#
# **Situation.** Your computing centre keeps forty years of paper slips with handwritten sample numbers.
# You are asked for a small reader of digits, and for advice: which of the centre's machines should run it?
# You begin where you are at home, with PyTorch on a GPU. The next labs move this same model to other
# chips, so get used to one question here: what do I ask of the machine, and how often?
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
# Run each cell with Shift+Enter, from the top.

# %%
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from tqdm.auto import tqdm

import techlabs
from techlabs import diagrams, plots
from techlabs.data import digits

torch.manual_seed(0)
lab = techlabs.Lab("gpu_first")
bench = techlabs.bench("gpu")
bench

# %% [markdown]
# ## What you already know
#
# The slips are stood in for by scikit-learn's handwritten digits: 8 x 8 pixels, ten classes.

# %% tags=["nbval-check-output"]
train_set, test_set = digits()
image, label = train_set[0]
print(len(train_set), "training images,", len(test_set), "test images")
print("one image:", tuple(image.shape), image.dtype, "label", int(label))
# > 1437 training images, 360 test images
# > one image: (1, 8, 8) torch.float32 label 6

# %%
plots.image_row(train_set)

# %% [markdown]
# A linear classifier is the yardstick: whatever you build should beat it. One epoch over the training
# set is a loop over batches, and each batch goes to the device, through the model, and back as an update.

# %%
linear = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).to(bench.device)
optimizer = torch.optim.Adam(linear.parameters(), lr=0.01)
for _ in tqdm(range(5), desc="linear classifier"):
    for images, labels in DataLoader(train_set, batch_size=64, shuffle=True):
        scores = linear(images.to(bench.device))
        loss = F.cross_entropy(scores, labels.to(bench.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

images, labels = test_set.tensors
correct = linear(images.to(bench.device)).argmax(1).cpu() == labels
print(f"test accuracy of the linear classifier: {correct.float().mean():.3f}")

# %% [markdown]
# ## Predict
#
# You train with batches of 64 and drop the last batch when it's short.

# %%
lab.predict(
    "calls",
    "1437 training images, batches of 64, short batch dropped: how many device calls has one epoch?",
    choices=[22, 23, 64, 1437],
    answer=None,
)

# %%
if lab.predicted("calls"):
    loader = DataLoader(train_set, batch_size=64, drop_last=True)
    print(len(loader), "calls;", len(train_set) - 64 * len(loader), "images are left out of this epoch")

# %% [markdown]
# ## How this machine is built

# %%
diagrams.gpu()

# %% [markdown]
# - Host and GPU have memories apart. `.to(device)` copies; a forgotten copy is an error.
# - Python runs on the host and launches one kernel after another. Nothing is compiled ahead.
# - So the next batch may have another size: the short last batch is no trouble.
# - And Python decides as it goes: you may print, or branch on a value, in the middle of `forward`.
#
# Keep the last three in mind. On the IPU all three change.

# %% [markdown]
# ## Worked example
#
# One layer, so that you see shapes. A convolution with `padding=1` keeps the side, a pooling halves it.

# %% tags=["nbval-check-output"]
batch = torch.stack([train_set[i][0] for i in range(3)])
convolved = F.relu(nn.Conv2d(1, 16, 3, padding=1)(batch))
pooled = F.max_pool2d(convolved, 2)
print(tuple(batch.shape), "->", tuple(convolved.shape), "->", tuple(pooled.shape))
# > (3, 1, 8, 8) -> (3, 16, 8, 8) -> (3, 16, 4, 4)

# %% [markdown]
# ## x1: build the model (5 minutes)
#
# Fill in the two missing steps of `forward`. Replace each `raise` line with your code. The comments say
# which shapes to reach. Return raw scores, since `cross_entropy` brings its own softmax.


# %% answer="x1"
class DigitsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.out = nn.Linear(32 * 2 * 2, 10)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.conv1(images)), 2)  # [N, 1, 8, 8] -> [N, 16, 4, 4]
        # [N, 16, 4, 4] -> [N, 32, 2, 2], the same three operations with conv2
        ### BEGIN SOLUTION
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        ### END SOLUTION
        # [N, 32, 2, 2] -> [N, 10]
        ### BEGIN SOLUTION
        return self.out(x.flatten(1))
        ### END SOLUTION


# %% check="x1" points=2
lab.check("x1", DigitsNet)
### BEGIN HIDDEN TESTS
lab.grade("x1", DigitsNet)
### END HIDDEN TESTS

# %% [markdown]
# Stuck? `lab.hint("x1", 1)` is a nudge, 2 says where to look, 3 is nearly the solution. After a try of
# your own, `lab.solution("x1")` shows one. For marks, checks run again with other sizes and seeds.
#
# ## x2: feed it (5 minutes)
#
# Write `make_loader`. In training: shuffled batches, all of the same size. In testing: every image once,
# in order. Images may be left over in one of the two. Which?


# %% answer="x2"
def make_loader(dataset, batch, training):
    """A torch DataLoader over dataset: batch images at a time."""
    ### BEGIN SOLUTION
    return DataLoader(dataset, batch_size=batch, shuffle=training, drop_last=training)
    ### END SOLUTION


# %% check="x2" points=3
lab.check("x2", make_loader)
### BEGIN HIDDEN TESTS
lab.grade("x2", make_loader)
### END HIDDEN TESTS

# %% [markdown]
# ## Break it on purpose
#
# A new scanner delivers 16 x 16 pixels. Read the message before you read on: it names two shapes.

# %%
small_net = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, 10))
try:
    small_net(torch.zeros(3, 1, 16, 16))
except RuntimeError as error:
    print(error)

# %% [markdown]
# The first shape is what arrives, the second what the layer was built for: `nn.Linear` has the picture's
# size built in, and nobody noticed while all pictures were 8 x 8.
#
# ## x3: repair the cause (5 minutes)
#
# Write the number of features that reach the linear layer after two poolings. The side may be odd: a
# pooling rounds down.


# %% answer="x3"
def flat_features(side, channels):
    """Features of one picture after two 2 x 2 poolings: an int."""
    ### BEGIN SOLUTION
    side = side // 2 // 2
    return channels * side * side
    ### END SOLUTION


# %% check="x3" points=2
lab.check("x3", flat_features)
### BEGIN HIDDEN TESTS
lab.grade("x3", flat_features)
### END HIDDEN TESTS

# %% [markdown]
# ## x4: train, let go, test (15 minutes)
#
# Your own training. Optimizer, learning rate, batch size and number of epochs are yours. You get a fresh
# `DigitsNet`; asked for are
#
# - a test accuracy of 0.93 or more, returned as a fraction of 1;
# - at most 400 training calls of the model;
# - the model back on the CPU and in eval mode: the next user needs the GPU.


# %% answer="x4"
def train_and_test(model, train_set, test_set, device):
    """Train model on device; return its accuracy on test_set."""
    ### BEGIN SOLUTION
    model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    train_loader = DataLoader(train_set, batch_size=64, shuffle=True, drop_last=True)
    for _ in tqdm(range(10), desc="training"):
        for images, labels in train_loader:
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.to("cpu").eval()
    with torch.no_grad():
        images, labels = test_set.tensors
        return (model(images).argmax(1) == labels).float().mean().item()
    ### END SOLUTION


# %% check="x4" points=3
lab.check("x4", train_and_test)
### BEGIN HIDDEN TESTS
lab.grade("x4", train_and_test)
### END HIDDEN TESTS

# %% [markdown]
# ## Compare
#
# What you predicted, and what your model does. The IPU lab will put its own column beside this one.

# %%
lab.compare("calls", actual=22)

# %%
if lab.passed("x1", "x4"):
    accuracy = train_and_test(DigitsNet(), train_set, test_set, bench.device)
    lab.keep(test_accuracy=round(accuracy, 3), samples_per_device_call=64)  # your batch size, if not 64
lab.compare_machines("gpu_first", "ipu_first")

# %% [markdown]
# ## Key points
#
# - A GPU takes its work kernel by kernel, so shapes and decisions may change from batch to batch.
# - One device call consumes one batch. What doesn't fill a batch is dropped, or runs short: you decide.
# - A layer can have the picture's size built in. The error names both shapes.
#
# **Talk to your neighbour.** Which of your choices in x4 would still make sense if changing the batch
# size cost ten minutes of compilation?
#
# **Where next.** `21_ipu_first` ports this model to an IPU.

# %%
lab.exit_slip(
    clearest="",  # what is clear now that wasn't before?
    open_question="",  # what would you ask?
)
