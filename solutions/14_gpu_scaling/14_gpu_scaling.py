# ---
# jupyter:
#   techlabs:
#     name: gpu_scaling
#     title: Scaling over GPUs
#     minutes: 45
#     machine_seconds: 30
#     device: "two processes on CPUs, as two GPUs would work"
#     needs: "12_gpu_feeding"
# ---

# %% [markdown]
# # Scaling over GPUs
#
# {{ facts }}
#
# **Situation.** The batch queue offers you one GPU today or four next week. A colleague says that four are
# four times as fast. Another says that his training with four gave other numbers, and that he never found
# out why. You have a laptop and an hour, which is enough to check both.
#
# **You will be able to**
#
# 1. split work over devices and get the same numbers (exercise x1);
# 2. say what the split costs (x2);
# 3. read a failure that only several devices have, and repair it (x3);
# 4. choose a split, and defend it with a number (x4).

# %% [markdown]
# ## Check your bench

# %%
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import techlabs
from techlabs import diagrams, plots
from techlabs.data import digits
from techlabs.processes import run_together

torch.manual_seed(0)
lab = techlabs.Lab("gpu_scaling")
techlabs.bench("gpu")

# %% [markdown]
# ## What you already know
#
# One process, one batch, one gradient.

# %% tags=["nbval-check-output"]
train_set, _ = digits()
images, labels = train_set[:12]


def gradient_of(rows):
    """The gradient of a small model, started the same way each time, on some rows."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    F.cross_entropy(model(images[rows]), labels[rows]).backward()
    return model[1].weight.grad


whole = gradient_of(range(12))
print("gradient of 12 images:", tuple(whole.shape))
# > gradient of 12 images: (10, 64)

# %% [markdown]
# ## Predict
#
# Two processes share the twelve images: one takes 4, the other 8. Each computes the mean gradient of its own
# images. Then they take the plain mean of the two.

# %%
lab.predict(
    "same",
    "4 and 8 images, plain mean of both gradients: is it the gradient of all 12?",
    choices=["yes", "no, the 4 count too much", "no, the 8 count too much"],
    answer=None,
)

# %%
if lab.predicted("same"):
    mean = (gradient_of(range(4)) + gradient_of(range(4, 12))) / 2
    print(f"plain mean: largest difference {(mean - whole).abs().max():.4f}")

# %% [markdown]
# ## How this machine is built

# %%
diagrams.ring()

# %% [markdown]
# - Every device has the whole model and its own part of the batch.
# - After the backward pass the devices combine their gradients, so that all do the same update.
# - In a ring each sends to its neighbour only: first parts are added up on the way, then sums are handed
#   round. This is called all-reduce.
# - While they combine they don't compute. What that costs depends on the model's size, not on the batch.

# %% [markdown]
# ## Worked example
#
# Two real processes. `DistributedDataParallel` wraps the model; its backward pass combines the gradients.
# With equal shards, the result is that of the whole batch.


# %%
def train_step(rank, processes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    parallel = DistributedDataParallel(model)  # the only new line
    rows = range(rank * 6, rank * 6 + 6)
    F.cross_entropy(parallel(images[rows]), labels[rows]).backward()
    return model[1].weight.grad.tolist()


first, second = run_together(train_step, processes=2)
print("both processes have the same gradient:", first == second)
print(f"largest difference from one process: {(torch.tensor(first) - whole).abs().max():.1g}")

# %% [markdown]
# ## x1: the same numbers (5 minutes)
#
# `DistributedDataParallel` takes the plain mean. Write `combine` so that unequal shards are right too.


# %% answer="x1"
def combine(gradients, rows):
    """The gradient of the whole batch; gradients[i] is the mean gradient of a shard of rows[i] rows."""
    total = sum(rows)
    ### BEGIN SOLUTION
    return sum(gradient * (number / total) for gradient, number in zip(gradients, rows))
    ### END SOLUTION


# %% check="x1" points=2
lab.check("x1", combine)
### BEGIN HIDDEN TESTS
lab.grade("x1", combine)
### END HIDDEN TESTS

# %% [markdown]
# ## x2: what the split costs (10 minutes)
#
# Count the bytes that *one* process sends in a ring of n. The gradient is cut in n parts. In each of n - 1
# rounds it sends one part on, and the parts add up on their way. In n - 1 more rounds the finished parts are
# handed round.


# %% answer="x2"
def bytes_sent(parameters, bytes_each, processes):
    """Bytes that each process sends to combine one gradient."""
    ### BEGIN SOLUTION
    rounds = 2 * (processes - 1)
    return rounds * parameters * bytes_each / processes
    ### END SOLUTION


# %% check="x2" points=3
lab.check("x2", bytes_sent)
### BEGIN HIDDEN TESTS
lab.grade("x2", bytes_sent)
### END HIDDEN TESTS

# %% [markdown]
# ## Break it on purpose
#
# Two processes shuffle the same ten rows and take every second one: the first the even places, the second the
# odd ones. As in two real processes, nobody agreed on the random numbers.


# %%
def careless_rows(rank, processes):
    torch.manual_seed(rank)  # a process of its own has random numbers of its own
    return torch.randperm(10)[rank::processes].tolist()


shares = run_together(careless_rows, processes=2)
print(shares)
print("rows that both train on:", sorted(set(shares[0]) & set(shares[1])))

# %% [markdown]
# No error. Some rows are trained on twice in this epoch, others never.
#
# ## x3: repair the cause (10 minutes)
#
# Write `my_rows`. In every epoch: shuffled, another order than before, no row twice, and the same number of
# rows for each process, since one with more would wait for the others for ever. `torch.Generator` keeps
# random numbers apart from everybody else's.


# %% answer="x3"
def my_rows(rows, rank, processes, epoch):
    """Numbers of the rows, of 0 to rows - 1, that process `rank` trains on in this epoch."""
    ### BEGIN SOLUTION
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(epoch))
    shared = order[: rows // processes * processes]
    return shared[rank::processes].tolist()
    ### END SOLUTION


# %% check="x3" points=2
lab.check("x3", my_rows)
### BEGIN HIDDEN TESTS
lab.grade("x3", my_rows)
### END HIDDEN TESTS

# %% [markdown]
# ## x4: choose, and defend it (10 minutes)
#
# Efficiency is what is left of the added devices: throughput of n devices, divided by n times that of one.
# Write `choose`: the largest number of devices whose efficiency is still `target` or more.


# %% answer="x4"
def choose(images_per_second, target):
    """A number of devices; images_per_second maps numbers of devices to throughputs."""
    ### BEGIN SOLUTION
    one = images_per_second[1]
    good = [devices for devices, rate in images_per_second.items() if rate / (devices * one) >= target]
    return max(good)
    ### END SOLUTION


# %% check="x4" points=3
lab.check("x4", choose)
### BEGIN HIDDEN TESTS
lab.grade("x4", choose)
### END HIDDEN TESTS

# %% [markdown]
# ## Compare

# %%
lab.compare("same", actual="no, the 4 count too much")

# %%
published = {
    1: 274,
    2: 425,
    4: 852,
}  # EfficientNetV2-S, 64 images a GPU, github hieutrungle/benchmark_em_model
if lab.passed("x4"):
    for target in (0.9, 0.75, 0.5):
        print(f"efficiency {target} or more: {choose(published, target)} GPUs")
plots.plateau(published, "GPUs", "GPUs with one loader each, published")

# %% [markdown]
# ## Key points
#
# - Equal shards and a mean give the numbers of one device. Unequal shards need weights.
# - Combining a gradient costs each device almost twice its size, however many there are.
# - Random numbers are agreed on by a seed, or not at all.
#
# **Talk to your neighbour.** One GPU today or four next week: what do you need to know about your training
# before you answer?
#
# **Where next.** Scaling over IPUs: replicas, and a model cut into stages.

# %%
lab.exit_slip(
    clearest="",  # what is clear now that wasn't before?
    open_question="",  # what would you ask?
)
