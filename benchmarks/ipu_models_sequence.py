"""The transformers behind the published rows, written from their public descriptions."""

import torch
import torch.nn.functional as F
from ipu_models import meta
from torch import Tensor, nn

import poptorch

__all__ = ["Bert", "Conformer", "SwinTiny", "ViT", "meta"]


class _Attention(nn.Module):
    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def _split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory=None, bias=None):
        memory = x if memory is None else memory
        q, k, v = self._split(self.query(x)), self._split(self.key(memory)), self._split(self.value(memory))
        scores = torch.matmul(q, k.transpose(-2, -1)) * (q.shape[-1] ** -0.5)
        if bias is not None:
            scores = scores + bias
        weights = F.dropout(F.softmax(scores, dim=-1), self.dropout)
        return self.out(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class _EncoderLayer(nn.Module):
    def __init__(self, width, heads, inner, before):
        super().__init__()
        self.attention, self.first, self.second = (
            _Attention(width, heads),
            nn.LayerNorm(width),
            nn.LayerNorm(width),
        )
        self.up, self.down, self.before = nn.Linear(width, inner), nn.Linear(inner, width), before

    def _inner(self, x):
        return F.dropout(self.down(F.gelu(self.up(x))), 0.1)

    def forward(self, x):
        if self.before:
            x = x + F.dropout(self.attention(self.first(x)), 0.1)
            x = x + self._inner(self.second(x))
        else:
            x = self.first(x + F.dropout(self.attention(x), 0.1))
            x = self.second(x + self._inner(x))
        return poptorch.recomputationCheckpoint(x)


class Bert(nn.Module):
    """BERT with both pre-training heads (Devlin et al. 2018), or the answer-span head for fine-tuning."""

    def __init__(self, width=1024, layers=24, heads=16, length=128, masked=20, pretraining=True):
        super().__init__()
        self.word, self.place, self.kind = (
            nn.Embedding(30522, width),
            nn.Embedding(512, width),
            nn.Embedding(2, width),
        )
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(_EncoderLayer(width, heads, 4 * width, False) for _ in range(layers)))
        self.length, self.masked, self.pretraining = length, masked, pretraining
        self.transform = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
        self.pooler, self.next = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(
        self, tokens: Tensor, kinds: Tensor, places: Tensor, labels: Tensor, following: Tensor
    ) -> Tensor:
        """The loss of a micro-batch."""
        x = F.dropout(self.norm(self.word(tokens) + self.place(places) + self.kind(kinds)), 0.1)
        x = self.layers(x)
        if not self.pretraining:
            return F.cross_entropy(self.next(x)[:, :, 0], following)
        sentence = self.next(torch.tanh(self.pooler(x[:, 0])))
        hidden = self.transform(x[:, : self.masked])
        scores = F.linear(hidden, self.word.weight)
        words = F.cross_entropy(scores.flatten(0, 1), labels.flatten())
        return poptorch.identity_loss(words + F.cross_entropy(sentence, following), "none")


class ViT(nn.Module):
    """Vision transformer B/16 at 224 x 224 with the pre-training head (Dosovitskiy et al. 2020)."""

    def __init__(self, width=768, layers=12, heads=12):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first, self.place = (
            nn.Parameter(torch.empty(1, 1, width)),
            nn.Parameter(torch.empty(1, 197, width)),
        )
        self.layers = nn.Sequential(*(_EncoderLayer(width, heads, 4 * width, True) for _ in range(layers)))
        self.norm, self.classifier = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.place
        return F.cross_entropy(self.classifier(self.norm(self.layers(F.dropout(x, 0.1)))[:, 0]), y)


class _SwinLayer(nn.Module):
    def __init__(self, width, heads, side, window=7, shifted=False):
        super().__init__()
        self.attention, self.side, self.window = _Attention(width, heads), side, window
        self.shift = window // 2 if shifted and side > window else 0
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.empty(1, heads, window**2, window**2))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, side, w = x.shape[0], self.side, self.window
        y = self.first(x).view(n, side, side, -1)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = (
            y.view(n, side // w, w, side // w, w, -1)
            .permute(0, 1, 3, 2, 4, 5)
            .reshape(-1, w * w, x.shape[-1])
        )
        y = self.attention(y, bias=self.bias)
        y = y.view(n, side // w, side // w, w, w, -1).permute(0, 1, 3, 2, 4, 5).reshape(n, side, side, -1)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + F.dropout(y.reshape(x.shape), 0.1)
        return x + F.dropout(self.down(F.gelu(self.up(self.second(x)))), 0.1)


class _PatchMerging(nn.Module):
    def __init__(self, width, side):
        super().__init__()
        self.side, self.norm, self.reduce = (
            side,
            nn.LayerNorm(4 * width),
            nn.Linear(4 * width, 2 * width, bias=False),
        )

    def forward(self, x):
        n, half = x.shape[0], self.side // 2
        x = x.view(n, half, 2, half, 2, -1).permute(0, 1, 3, 2, 4, 5).reshape(n, half * half, -1)
        return self.reduce(self.norm(x))


class SwinTiny(nn.Module):
    """Swin transformer, tiny, 224 x 224 (Liu et al. 2021); `layers` lists its 12 layers, merging included."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 96, 4, 4), nn.LayerNorm(96)
        layers, width, side = [], 96, 56
        for stage, depth in enumerate((2, 2, 6, 2)):
            for n in range(depth):
                layer = _SwinLayer(width, width // 32, side, shifted=n % 2 == 1)
                layers.append(
                    layer if n or not stage else nn.Sequential(_PatchMerging(width // 2, side * 2), layer)
                )
            width, side = width * 2, side // 2
        self.layers = nn.Sequential(*layers)
        self.last, self.classifier = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = self.layers(self.norm(self.patches(x).flatten(2).transpose(1, 2)))
        return F.cross_entropy(self.classifier(self.last(x).mean(1)), y)


# --- Conformer (Gulati et al. 2020) with a transformer decoder, as in WeNet's recipe for AISHELL


class _FeedForward(nn.Module):
    def __init__(self, width, inner, active):
        super().__init__()
        self.norm, self.up, self.down, self.active = (
            nn.LayerNorm(width),
            nn.Linear(width, inner),
            nn.Linear(inner, width),
            active,
        )

    def forward(self, x):
        return F.dropout(self.down(F.dropout(self.active(self.up(self.norm(x))), 0.1)), 0.1)


class _RelativeAttention(_Attention):
    """Attention with a learned projection of relative positions added to the scores."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.position = nn.Linear(width, width, bias=False)
        self.u, self.v = (nn.Parameter(torch.empty(heads, 1, width // heads)) for _ in range(2))

    def forward(self, x, places):
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        p = self._split(self.position(places))
        scores = torch.matmul(q + self.u, k.transpose(-2, -1)) + torch.matmul(q + self.v, p.transpose(-2, -1))
        return self.out(
            torch.matmul(F.softmax(scores * (q.shape[-1] ** -0.5), -1), v).transpose(1, 2).flatten(2)
        )


class _ConformerLayer(nn.Module):
    def __init__(self, width, heads, inner, kernel):
        super().__init__()
        self.begin, self.end = _FeedForward(width, inner, F.silu), _FeedForward(width, inner, F.silu)
        self.attention, self.before, self.middle, self.last = (
            _RelativeAttention(width, heads),
            nn.LayerNorm(width),
            nn.LayerNorm(width),
            nn.LayerNorm(width),
        )
        self.into = nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm, self.out = nn.LayerNorm(width), nn.Conv1d(width, width, 1)

    def forward(self, x, places):
        x = x + 0.5 * self.begin(x)
        x = x + F.dropout(self.attention(self.before(x), places), 0.1)
        y = self.depthwise(F.glu(self.into(self.middle(x).transpose(1, 2)), 1))
        x = x + F.dropout(self.out(F.silu(self.norm(y.transpose(1, 2))).transpose(1, 2)).transpose(1, 2), 0.1)
        return self.last(x + 0.5 * self.end(x))


class _DecoderLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.own, self.other = _Attention(width, heads), _Attention(width, heads)
        self.first, self.second, self.inner = (
            nn.LayerNorm(width),
            nn.LayerNorm(width),
            _FeedForward(width, inner, F.relu),
        )

    def forward(self, x, memory, mask):
        x = x + F.dropout(self.own(self.first(x), bias=mask), 0.1)
        x = x + F.dropout(self.other(self.second(x), memory), 0.1)
        return x + self.inner(x)


class Conformer(nn.Module):
    """Conformer-medium: 12 encoder layers of width 256, 6 decoder layers, CTC left to a linear layer and a
    softmax.

    The CTC recursion itself is short beside the rest and is not written out.
    """

    def __init__(self, width=256, heads=4, inner=2048, kernel=15, vocabulary=4233):
        super().__init__()
        self.subsample = nn.Sequential(
            nn.Conv2d(1, width, 3, 2), nn.ReLU(), nn.Conv2d(width, width, 3, 2), nn.ReLU()
        )
        self.embed = nn.Linear(width * 19, width)
        self.encoder = nn.ModuleList(_ConformerLayer(width, heads, inner, kernel) for _ in range(12))
        self.norm, self.ctc = nn.LayerNorm(width), nn.Linear(width, vocabulary)
        self.words = nn.Embedding(vocabulary, width)
        self.decoder = nn.ModuleList(_DecoderLayer(width, heads, inner) for _ in range(6))
        self.after, self.out = nn.LayerNorm(width), nn.Linear(width, vocabulary)

    def forward(self, x: Tensor, places: Tensor, tokens: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = self.subsample(x.unsqueeze(1)).transpose(1, 2).flatten(2)
        x = F.dropout(self.embed(x), 0.1)
        for layer in self.encoder:
            x = layer(x, places)
        x = self.norm(x)
        frames = F.log_softmax(self.ctc(F.dropout(x, 0.1)), -1)
        y = F.dropout(self.words(tokens), 0.1)
        for layer in self.decoder:
            y = layer(y, x, mask)
        attention = F.cross_entropy(
            self.out(self.after(y)).flatten(0, 1), labels.flatten(), label_smoothing=0.1
        )
        return poptorch.identity_loss(0.7 * attention - 0.3 * frames[:, :, 0].mean(), "none")
