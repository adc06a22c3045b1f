# ---
# jupyter:
#   techlabs:
#     name: gpu_feeding
#     title: Feeding a GPU
#     minutes: 40
#     machine_seconds: 15
#     device: "GPU (CUDA, or the CPU in its place)"
#     needs: "11_gpu_first"
# ---

# %% [markdown]
# # Feeding a GPU
#
# {{ facts }}
#
# **Situation.** The scanned slips moved to a store on the network, and training became slower although the
# model is the same. The operators see a GPU that is idle most of the time and ask whether you need a
# larger one. Before you say yes: find out what the GPU is waiting for.
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
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from tqdm.auto import tqdm

import techlabs
from techlabs import diagrams, plots
from techlabs.data import digits, slowly

torch.manual_seed(0)
lab = techlabs.Lab("gpu_feeding")
bench = techlabs.bench("gpu")
bench

# %% [markdown]
# ## What you already know
#
# The training loop of `11_gpu_first`, with a stopwatch for its two parts. `slowly` stands in for the store:
# each image takes 0.2 ms to arrive.

# %%
train_set, test_set = digits()
store = slowly(train_set, milliseconds=0.2)
model = nn.Sequential(nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10)).to(bench.device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)


def train_epoch(loader):
    """One epoch; returns measured milliseconds of waiting for data and of computing."""
    waiting = computing = 0.0
    before = time.perf_counter()
    for images, labels in loader:
        arrived = time.perf_counter()
        loss = F.cross_entropy(model(images.to(bench.device)), labels.to(bench.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        waiting, computing = waiting + arrived - before, computing + time.perf_counter() - arrived
        before = time.perf_counter()
    return 1000 * waiting, 1000 * computing


train_epoch([next(iter(DataLoader(store, batch_size=64)))])  # a first step, not to be measured
waiting, computing = train_epoch(tqdm(DataLoader(store, batch_size=64), desc="one epoch"))
print(f"measured here: {waiting:.0f} ms waiting for data, {computing:.0f} ms computing")

# %% [markdown]
# ## Predict
#
# Loading a batch takes 12 ms, computing on it 3 ms. You give the loader processes of its own, so that both
# happen at the same time.

# %%
lab.predict(
    "speedup",
    "Load 12 ms, compute 3 ms, one loader process: how much shorter does a long epoch get?",
    choices=["12 / 3 = 4 times", "15 / 12 = 1.25 times", "15 / 3 = 5 times"],
    answer=None,
)

# %%
if lab.predicted("speedup"):
    print("The slower part sets the pace: from 15 ms a batch to 12 ms. Four processes would make it 3 ms.")

# %% [markdown]
# ## How this machine is built

# %%
diagrams.feeding("GPU")

# %% [markdown]
# - Without workers the Python process loads a batch, then launches the kernels for it, then loads again.
# - A worker is a process of its own. It loads ahead while the GPU computes.
# - The pace is that of the slower part. More workers help until computing is the slower one.
# - The GPU copies from pinned memory without asking the CPU, so `pin_memory` goes with a real GPU.

# %% [markdown]
# ## Worked example
#
# The epoch above, as a sum. It takes turns: load, compute, load, compute.

# %% tags=["nbval-check-output"]
batches, load, compute = 22, 12.0, 3.0
print("no workers:", batches * (load + compute), "ms")
print("computing alone:", batches * compute, "ms - what a faster GPU could save at most")
# > no workers: 330.0 ms
# > computing alone: 66.0 ms - what a faster GPU could save at most

# %% [markdown]
# ## x1: the time of an epoch (10 minutes)
#
# Fill in both cases. With workers: the first batch has to be loaded before anything else; then the slower
# part sets the pace for the other batches, with the workers sharing the loading; at the end the last batch
# has to be computed.


# %% answer="x1"
def epoch_ms(batches, load, compute, workers):
    """Milliseconds of an epoch; load and compute are milliseconds a batch."""
    if workers == 0:
        ### BEGIN SOLUTION
        return batches * (load + compute)
        ### END SOLUTION
    ### BEGIN SOLUTION
    pace = max(load / workers, compute)
    return load + (batches - 1) * pace + compute
    ### END SOLUTION


# %% check="x1" points=2
lab.check("x1", epoch_ms)
### BEGIN HIDDEN TESTS
lab.grade("x1", epoch_ms)
### END HIDDEN TESTS

# %% [markdown]
# ## x2: load beside the computation (5 minutes)
#
# Write the loader. Workers that stay from epoch to epoch save their start; pinned memory is for a real GPU
# only. `cuda` says whether there is one.


# %% answer="x2"
def make_loader(dataset, batch, workers, cuda):
    """A torch DataLoader with its own processes, when workers is more than 0."""
    ### BEGIN SOLUTION
    return DataLoader(
        dataset,
        batch_size=batch,
        num_workers=workers,
        pin_memory=cuda,
        persistent_workers=workers > 0,
    )
    ### END SOLUTION


# %% check="x2" points=3
lab.check("x2", make_loader)
### BEGIN HIDDEN TESTS
lab.grade("x2", make_loader)
### END HIDDEN TESTS

# %%
if lab.passed("x2"):
    loader = make_loader(store, 64, workers=2, cuda=bench.backend == "hardware")
    train_epoch(loader)  # the workers start here, so look at the second epoch
    waiting, computing = train_epoch(loader)
    print(f"measured here with 2 workers: {waiting:.0f} ms waiting, {computing:.0f} ms computing")

# %% [markdown]
# ## Break it on purpose
#
# A store is often read as a stream. Each worker gets a copy of the dataset and runs it. Count what arrives.


# %%
class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


for workers in (0, 2):
    records = [int(number) for batch in DataLoader(Stream(), num_workers=workers) for number in batch]
    print(f"{workers} workers: {len(records)} records, {sorted(records)}")

# %% [markdown]
# No error, no warning: with two workers every record is trained on twice, and an epoch is twice as long as
# it should be.
#
# ## x3: repair the cause (5 minutes)
#
# Write `my_share`: which records does this worker read? Over all workers each record comes once, and the
# shares differ by one record at most.


# %% answer="x3"
def my_share(records, worker, workers):
    """Numbers of the records, 0 to records - 1, that worker number `worker` reads."""
    ### BEGIN SOLUTION
    return range(worker, records, workers)
    ### END SOLUTION


# %% check="x3" points=2
lab.check("x3", my_share)
### BEGIN HIDDEN TESTS
lab.grade("x3", my_share)
### END HIDDEN TESTS


# %%
class SharedStream(IterableDataset):
    def __iter__(self):
        me = get_worker_info()  # None without workers
        return iter(my_share(6, me.id, me.num_workers) if me else range(6))


if lab.passed("x3"):
    print(sorted(int(number) for batch in DataLoader(SharedStream(), num_workers=2) for number in batch))

# %% [markdown]
# ## x4: explain a plateau (15 minutes)
#
# Published: an autoencoder on one A100, images per second at four batch sizes. Larger batches help, then
# hardly. A step has a fixed part (launching kernels) and a part for each image. Write `explain`: it finds
# both from measured throughputs. How you fit is yours; it has to work for other machines too.


# %% answer="x4"
def explain(batches, images_per_second):
    """Fixed milliseconds of a step, and milliseconds per image."""
    ### BEGIN SOLUTION
    steps = 1000 * numpy.array(batches) / numpy.array(images_per_second)
    per_image, fixed = numpy.polyfit(batches, steps, 1)
    return fixed, per_image
    ### END SOLUTION


# %% check="x4" points=3
lab.check("x4", explain)
### BEGIN HIDDEN TESTS
lab.grade("x4", explain)
### END HIDDEN TESTS

# %% [markdown]
# ## Compare

# %%
lab.compare("speedup", actual="15 / 12 = 1.25 times")

# %%
published = {10: 270, 128: 3111, 256: 5109, 512: 5833}  # A100, github hieutrungle/test_autoencoder, table 4
curve = None
if lab.passed("x4"):
    fixed, per_image = explain(list(published), list(published.values()))
    print(f"{fixed:.1f} ms a step + {per_image:.3f} ms an image: never over {1000 / per_image:.0f} images/s")

    def curve(batch):
        return 1000 * batch / (fixed + per_image * batch)


plots.plateau(published, "batch size", "A100, published", curve)

# %% [markdown]
# ## Key points
#
# - An epoch has two parts. The slower one sets the pace; making the other faster changes nothing.
# - Workers load ahead. A stream has to be shared between them by you.
# - A plateau is a fixed time that spreads over more images until the time per image is all that is left.
#
# **Talk to your neighbour.** The operators asked about a larger GPU. What do you tell them, with which two
# numbers?
#
# **Where next.** Feeding an IPU: the same question, when one call takes many batches.

# %%
lab.exit_slip(
    clearest="",  # what is clear now that wasn't before?
    open_question="",  # what would you ask?
)
