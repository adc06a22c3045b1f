# ---
# jupyter:
#   techlabs:
#     name: ipu_scaling
#     title: Scaling over IPUs
#     minutes: 50
#     machine_seconds: 25
#     device: "IPU (PopTorch, real or emulated)"
#     needs: "22_ipu_feeding, 14_gpu_scaling"
# ---

# %% [markdown]
# # Scaling over IPUs
#
# {{ facts }}
#
# **Situation.** A model doesn't fit into the 897 MiB of one IPU, so a group cut it into pieces, one for each
# IPU. With four pieces it trained, with eight it was no faster, and with some settings it didn't compile at
# all. They ask you how to cut it, and what eight IPUs are good for.
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
import itertools

import poptorch
import torch
import torch.nn.functional as F
from torch import nn

import techlabs
from techlabs import diagrams
from techlabs.data import digits

torch.manual_seed(0)
lab = techlabs.Lab("ipu_scaling")
techlabs.bench("ipu")

# %% [markdown]
# ## What you already know
#
# `14_gpu_scaling` gave every device the whole model and a part of the batch. PopTorch calls these copies
# replicas, and one option makes them: gradients are combined as if it were one device.


# %% tags=["nbval-check-output"]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = [(64, 32), (32, 32), (32, 32), (32, 10)]
        self.layers = nn.ModuleList(nn.Linear(*size) for size in sizes)

    def forward(self, images, labels=None):
        x = images.flatten(1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        scores = self.layers[-1](x)
        return scores if labels is None else (scores, F.cross_entropy(scores, labels))


train_set, _ = digits()
images, labels = train_set[:128]
options = poptorch.Options()
options.replicationFactor(2)
trainer = poptorch.trainingModel(Net(), options)
scores, losses = trainer(images, labels)
print("two replicas of 64 images each:", tuple(scores.shape), losses.numel(), "losses")
trainer.destroy()
# > two replicas of 64 images each: (128, 10) 2 losses

# %% [markdown]
# ## Predict
#
# Published: EfficientNetV2-S, its 8 blocks on 2, 4 or 8 IPUs, one replica. On 4 IPUs it makes 362 images per
# second.

# %%
lab.predict(
    "eight",
    "How many images per second does it make on 8 IPUs?",
    choices=["about 720", "about 540", "about 370"],
    answer=None,
)

# %%
if lab.predicted("eight"):
    print("Published: 278 on 2, 362 on 4, 367 on 8 IPUs. You find the reason in x4.")

# %% [markdown]
# ## How this machine is built

# %%
diagrams.pipeline()

# %% [markdown]
# - A pipeline stage is a piece of the model on an IPU of its own. It holds only the weights of its piece.
# - Micro-batches follow each other through the stages; after the last forward stage they go back.
# - Weights change after all micro-batches of the accumulation, so the numbers stay those of one piece.
# - At the start the last stages wait, at the end the first ones: the pipeline fills and drains.
# - The slowest stage sets the pace of all.

# %% [markdown]
# ## Worked example
#
# `BeginBlock` marks a layer in place: from this layer on, the model is on another IPU. Nothing else of the
# model changes. A pipeline needs several micro-batches, so there is accumulation.

# %%
model = Net()
poptorch.BeginBlock(model.layers[2], ipu_id=1)  # layers 0 and 1 stay on IPU 0
options = poptorch.Options()
options.Training.gradientAccumulation(8)
trainer = poptorch.trainingModel(model, options)
scores, loss = trainer(images, labels)
print("two stages, 8 micro-batches of 16 images: loss of the last one", round(loss.item(), 2))
trainer.destroy()

# %% [markdown]
# ## x1: cut the model (10 minutes)
#
# Write `split`: `cuts` lists the layers that begin the next IPU. The numbers must stay the same.


# %% answer="x1"
def split(model, cuts):
    """Mark model.layers in place: layer cuts[0] begins IPU 1, cuts[1] IPU 2, ...; return the model."""
    ### BEGIN SOLUTION
    for ipu, layer in enumerate(cuts, start=1):
        poptorch.BeginBlock(model.layers[layer], ipu_id=ipu)
    return model
    ### END SOLUTION


# %% check="x1" points=2
lab.check("x1", split)
### BEGIN HIDDEN TESTS
lab.grade("x1", split)
### END HIDDEN TESTS

# %% [markdown]
# ## x2: what the split costs (5 minutes)
#
# Let every stage take one step for a micro-batch. Draw three stages and five micro-batches, and count steps
# from the first to the last. Which share of them does a stage work? Write it for any numbers.


# %% answer="x2"
def efficiency(accumulation, stages):
    """Share of the steps in which a stage works: 1 is best."""
    ### BEGIN SOLUTION
    return accumulation / (accumulation + stages - 1)
    ### END SOLUTION


# %% check="x2" points=3
lab.check("x2", efficiency)
### BEGIN HIDDEN TESTS
lab.grade("x2", efficiency)
### END HIDDEN TESTS

# %% [markdown]
# ## Break it on purpose
#
# Four stages, and an accumulation of four: every stage has a micro-batch. Read what the compiler says.

# %%
model = Net()
for ipu in (1, 2, 3):
    poptorch.BeginBlock(model.layers[ipu], ipu_id=ipu)
options = poptorch.Options()
options.Training.gradientAccumulation(4)
try:
    poptorch.trainingModel(model, options)(images, labels)
except poptorch.Error as error:
    print(error)

# %% [markdown]
# In training a micro-batch goes through the pieces twice, forward and back; the last piece does both at once.
# So four pieces make seven pipeline stages.
#
# ## x3: repair the cause (10 minutes)
#
# Write `least_accumulation`: the smallest accumulation that the compiler takes for so many pieces in
# training, and that reaches an efficiency of `target` by the formula of x2.


# %% answer="x3"
def least_accumulation(stages, target):
    """Micro-batches for one update; stages counts the pieces of the model."""
    ### BEGIN SOLUTION
    accumulation = 2 * stages - 1
    while accumulation / (accumulation + stages - 1) < target:
        accumulation += 1
    return accumulation
    ### END SOLUTION


# %% check="x3" points=2
lab.check("x3", least_accumulation)
### BEGIN HIDDEN TESTS
lab.grade("x3", least_accumulation)
### END HIDDEN TESTS

# %% [markdown]
# ## x4: where to cut (15 minutes)
#
# You know how long each block takes. Write `balance`: how many consecutive blocks each IPU gets, so that the
# slowest stage is as fast as possible. Every IPU gets a block. There are few ways to cut: you may try all.


# %% answer="x4"
def balance(times, ipus):
    """Numbers of blocks, one for each IPU; times is a list of milliseconds, one for each block."""

    ### BEGIN SOLUTION
    def slowest(edges):
        return max(sum(times[begin:end]) for begin, end in zip(edges, edges[1:]))

    cuts = itertools.combinations(range(1, len(times)), ipus - 1)
    best = min(([0, *cut, len(times)] for cut in cuts), key=slowest)
    return [end - begin for begin, end in zip(best, best[1:])]
    ### END SOLUTION


# %% check="x4" points=3
lab.check("x4", balance)
### BEGIN HIDDEN TESTS
lab.grade("x4", balance)
### END HIDDEN TESTS

# %% [markdown]
# ## Compare

# %%
lab.compare("eight", actual="about 370")

# %%
mflop = [21, 340, 2473, 1202, 399, 1412, 1551, 42]  # forward, blocks stem, s1 to s6, head: counted
if lab.passed("x4"):
    print("balanced by FLOPs on 4 IPUs:", balance(mflop, 4), "- the group took [5, 1, 1, 1]")
print("s6 has", round(100 * mflop[6] / sum(mflop)), "% of the FLOPs; alone on an IPU it takes 1.25 to 1.3 ms")

# %% [markdown]
# In both published splits, four and eight, block s6 is alone on an IPU, and both take 1.25 to 1.3 ms an
# image. It has 15 layers of small pictures: each costs its fixed time, not its FLOPs. Cut by measured time.
#
# ## Key points
#
# - A pipeline gives the numbers of one piece, since weights change between accumulations only.
# - Its efficiency is GA / (GA + S - 1), and training takes GA of 2 S - 1 or more.
# - The slowest stage sets the pace. More IPUs don't help it, another cut may.
#
# **Talk to your neighbour.** Eight IPUs: one pipeline of eight, or four replicas of a pipeline of two? Which
# question do you ask first?
#
# **Where next.** A science lab: this network, on pictures of materials.

# %%
lab.exit_slip(
    clearest="",  # what is clear now that wasn't before?
    open_question="",  # what would you ask?
)
