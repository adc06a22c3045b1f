# ---
# jupyter:
#   techlabs:
#     name: ipu_feeding
#     title: Feeding an IPU
#     minutes: 45
#     machine_seconds: 40
#     device: "IPU (PopTorch, real or emulated)"
#     needs: "21_ipu_first, 12_gpu_feeding"
# ---

# %% [markdown]
# # Feeding an IPU
#
# {{ facts }}
#
# **Situation.** A group at your centre trains EfficientNetV2-S on pictures of materials. They went from two
# IPUs to sixteen and got twice the throughput, not eight times. They believe that the IPUs don't scale.
# You have their log, and a suspicion.
#
# **You will be able to**
#
# 1. say how long an epoch takes, and which part sets its pace (exercise x1);
# 2. build a loader that works beside the computation (x2);
# 3. find data that is fed wrongly without an error, and repair it (x3);
# 4. explain a plateau from measured throughputs (x4).

# %% [markdown]
# ## Check your bench

# %%
import time

import numpy
import poptorch
import torch
import torch.nn.functional as F
from torch import nn

import techlabs
from techlabs import diagrams, plots
from techlabs.data import digits, slowly

torch.manual_seed(0)
lab = techlabs.Lab("ipu_feeding")
techlabs.bench("ipu")

# %% [markdown]
# ## What you already know
#
# A model with its loss inside, and a loader that feeds whole calls, as in `21_ipu_first`.


# %%
class DigitsNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images, labels=None):
        scores = self.layers(images)
        return scores if labels is None else (scores, F.cross_entropy(scores, labels))


train_set, test_set = digits()
options = poptorch.Options()
options.deviceIterations(4)
loader = poptorch.DataLoader(options, train_set, batch_size=16)
print(loader.combinedBatchSize, "images a call,", len(loader), "calls an epoch")

# %% [markdown]
# ## Predict
#
# What comes back from a call? Every call below trains on eight micro-batches of 16 images. The model
# returns scores and a loss for each micro-batch.

# %%
lab.predict(
    "losses",
    "Device iterations 8, micro-batch 16, default output mode of training: how many losses come back?",
    choices=[1, 8, 16, 128],
    answer=None,
)

# %%
if lab.predicted("losses"):
    images, labels = train_set[:128]
    for mode in (poptorch.OutputMode.Final, poptorch.OutputMode.All):
        options = poptorch.Options()
        options.deviceIterations(8)
        options.outputMode(mode)
        trainer = poptorch.trainingModel(DigitsNet(), options)
        scores, loss = trainer(images, labels)
        print(f"{mode.name}: scores {tuple(scores.shape)}, {loss.numel()} loss(es)")
        trainer.destroy()

# %% [markdown]
# Training returns the last micro-batch only (`Final`): less to copy back. Ask for `All` when you need all.

# %% [markdown]
# ## How this machine is built

# %%
diagrams.feeding("IPU")

# %% [markdown]
# - The IPU runs a whole call without the host, so the host has that long to collect the next one.
# - A synchronous loader doesn't use the time: it collects when you ask for the next batch.
# - An asynchronous one does it in a process of its own, up to three calls ahead.
# - Replicas are copies of the model on other IPUs. They share the images of a call, and the device's time.
# - The host is one for all replicas.

# %% [markdown]
# ## Worked example
#
# The group's log: two pipeline stages, one replica, synchronous loader, 278 images per second.

# %% tags=["nbval-check-output"]
host, device, replicas = 1.474, 2.136, 1  # ms an image, found from the log in x4
each = host + device / replicas
print(f"{each:.2f} ms an image, {1000 / each:.0f} images per second")
# > 3.61 ms an image, 277 images per second

# %% [markdown]
# ## x1: the time of an image (5 minutes)
#
# Fill in both cases. Synchronous: host and IPU take turns. Asynchronous: they work side by side, and the
# slower one sets the pace. In both the replicas share the device's time.


# %% answer="x1"
def ms_per_image(host, device, replicas, asynchronous):
    """Milliseconds an image; host and device are milliseconds an image with one replica."""
    if asynchronous:
        ### BEGIN SOLUTION
        return max(host, device / replicas)
        ### END SOLUTION
    ### BEGIN SOLUTION
    return host + device / replicas
    ### END SOLUTION


# %% check="x1" points=2
lab.check("x1", ms_per_image)
### BEGIN HIDDEN TESTS
lab.grade("x1", ms_per_image)
### END HIDDEN TESTS

# %% [markdown]
# ## x2: collect the next call meanwhile (10 minutes)
#
# Write the loader. `poptorch.DataLoader` takes a `mode`, one of `poptorch.DataLoaderMode.Sync`, `Async` and
# `AsyncRebatched`, and torch's `num_workers`. You want the asynchronous one, shuffled, with workers.


# %% answer="x2"
def make_loader(dataset, micro_batch, device_iterations, workers):
    """A poptorch.DataLoader for training that collects the next call while the IPU works."""
    ### BEGIN SOLUTION
    options = poptorch.Options()
    options.deviceIterations(device_iterations)
    return poptorch.DataLoader(
        options,
        dataset,
        batch_size=micro_batch,
        shuffle=True,
        num_workers=workers,
        mode=poptorch.DataLoaderMode.Async,
    )
    ### END SOLUTION


# %% check="x2" points=3
lab.check("x2", make_loader)
### BEGIN HIDDEN TESTS
lab.grade("x2", make_loader)
### END HIDDEN TESTS

# %% [markdown]
# Its process takes some seconds to start, once. It holds memory until you call `terminate()`.

# %%
if lab.passed("x2"):
    loader = make_loader(slowly(train_set, milliseconds=0.2), 16, device_iterations=4, workers=1)
    for epoch in (1, 2):
        before = time.perf_counter()
        calls = [time.sleep(0.005) for images, labels in loader]  # 5 ms: the IPU at work
        print(f"epoch {epoch}: {len(calls)} calls, measured {1000 * (time.perf_counter() - before):.0f} ms")
    loader.terminate()

# %% [markdown]
# ## Break it on purpose
#
# More device iterations mean fewer calls, and less overhead. The group tried 100.

# %%
options = poptorch.Options()
options.deviceIterations(100)
loader = poptorch.DataLoader(options, train_set, batch_size=16)
loss = float("inf")
for _ in loader:
    loss = 0.0  # never reached
print(len(loader), "calls in the epoch, loss", loss, "- and no error")

# %% [markdown]
# One call would take 1600 images, the set has 1437, and the loader drops what doesn't fill a call. The
# epoch is over at once, nothing was trained, and nobody was told. It's in the published log: loss `inf`, time
# `0.0 s`.
#
# ## x3: repair the cause (10 minutes)
#
# Write `most_iterations`: the largest number of device iterations with which an epoch still has `calls`
# calls. Where not even one iteration fits, raise a `ValueError`.


# %% answer="x3"
def most_iterations(images, micro_batch, accumulation, replicas, calls):
    """The largest device iterations, 1 or more; ValueError where there is none."""
    ### BEGIN SOLUTION
    most = images // (micro_batch * accumulation * replicas * calls)
    if most == 0:
        raise ValueError(f"{images} images are too few for {calls} calls")
    return most
    ### END SOLUTION


# %% check="x3" points=2
lab.check("x3", most_iterations)
### BEGIN HIDDEN TESTS
lab.grade("x3", most_iterations)
### END HIDDEN TESTS

# %% [markdown]
# ## x4: explain the plateau (15 minutes)
#
# Published: images per second with two pipeline stages and 1, 2, 4 and 8 replicas, synchronous loader. Write
# `explain`: it finds the host's and the device's milliseconds an image from measured throughputs. How you
# fit is yours; it has to work for other machines too.


# %% answer="x4"
def explain(replicas, images_per_second):
    """Milliseconds an image of the host, and of the device with one replica."""
    ### BEGIN SOLUTION
    milliseconds = 1000 / numpy.array(images_per_second)
    device, host = numpy.polyfit(1 / numpy.array(replicas), milliseconds, 1)
    return host, device
    ### END SOLUTION


# %% check="x4" points=3
lab.check("x4", explain)
### BEGIN HIDDEN TESTS
lab.grade("x4", explain)
### END HIDDEN TESTS

# %% [markdown]
# ## Compare

# %%
lab.compare("losses", actual=1)

# %%
published = {1: 278, 2: 387, 4: 502, 8: 577}  # github hieutrungle/benchmark_em_model, medians of the log
curve = None
if lab.passed("x1", "x4"):
    host, device = explain(list(published), list(published.values()))
    faster = 1000 / ms_per_image(host, device, replicas=8, asynchronous=True)
    print(f"host {host:.2f} ms, device {device:.2f} ms an image")
    print(f"modelled, 8 replicas with an asynchronous loader: {faster:.0f} images per second")

    def curve(replicas):
        return 1000 / ms_per_image(host, device, replicas, asynchronous=False)


plots.plateau(published, "replicas (two IPUs each)", "IPU pod, published", curve)

# %% [markdown]
# ## Key points
#
# - Replicas divide the device's time, not the host's. With a synchronous loader the host's time stays.
# - An asynchronous loader hides the shorter of the two behind the longer one.
# - Count the calls of an epoch before you start it: none is possible, and silent.
#
# **Talk to your neighbour.** What do you tell the group: buy IPUs, or change one line? Which of your own
# applications would have their problem?
#
# **Where next.** Fitting a model: what happens when 897 MiB are not enough.

# %%
lab.exit_slip(
    clearest="",  # what is clear now that wasn't before?
    open_question="",  # what would you ask?
)
