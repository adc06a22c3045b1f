"""The convolutional networks behind the published rows, written from their public descriptions, on the meta
device.

No weight holds memory: `meta(...)` builds them, and capturing one computes shapes alone. Every model returns
its loss.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import poptorch


def meta(build, *args, half: bool = False, **kwargs) -> nn.Module:
    """A model without memory, in training mode, in half precision if asked."""
    with torch.device("meta"):
        model = build(*args, **kwargs)
    return model.half().train() if half else model.train()


def parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


# --- EfficientNetV2-S and EfficientNet-B4 (Tan & Le 2019, 2021; group 16 and group norm: Masters et al. 2021)


class _Norm(nn.Sequential):
    """Convolution, normalisation and, if asked, SiLU."""

    def __init__(self, i, o, kernel=1, stride=1, groups=1, active=True, norm=nn.BatchNorm2d):
        layers = [nn.Conv2d(i, o, kernel, stride, kernel // 2, groups=groups, bias=False), norm(o)]
        super().__init__(*layers, *([nn.SiLU()] if active else []))


class _SqueezeExcite(nn.Module):
    def __init__(self, channels, squeezed):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class _MBConv(nn.Module):
    def __init__(self, i, o, expand, kernel, stride, fused=False, group=1, drop=0.1, norm=nn.BatchNorm2d):
        super().__init__()
        wide = i * expand
        if fused:
            layers = [_Norm(i, wide, kernel, stride, norm=norm)] if expand > 1 else []
            layers += [
                _Norm(wide, o, 1, active=False, norm=norm)
                if expand > 1
                else _Norm(i, o, kernel, stride, norm=norm)
            ]
        else:
            layers = [_Norm(i, wide, norm=norm)] if expand > 1 else []
            layers += [
                _Norm(wide, wide, kernel, stride, groups=wide // group, norm=norm),
                _SqueezeExcite(wide, max(1, i // 4)),
                _Norm(wide, o, active=False, norm=norm),
            ]
        self.block, self.residual, self.drop = nn.Sequential(*layers), stride == 1 and i == o, drop

    def forward(self, x):
        y = self.block(x)
        if not self.residual:
            return y
        # Stochastic depth: whole rows of the residual branch are dropped.
        return x + y * F.dropout(torch.ones_like(y[:, :1, :1, :1]), self.drop)


class EfficientNetV2S(nn.Module):
    """EfficientNetV2-S with one output and an L1 loss; `features.0` to `features.7` are its eight blocks."""

    def __init__(self):
        super().__init__()
        # expand, kernel, stride, channels in, channels out, layers, fused
        stages = [
            (1, 3, 1, 24, 24, 2, True), (4, 3, 2, 24, 48, 4, True), (4, 3, 2, 48, 64, 4, True),
            (4, 3, 2, 64, 128, 6, False), (6, 3, 1, 128, 160, 9, False), (6, 3, 2, 160, 256, 15, False),
        ]  # fmt: skip
        blocks = [_Norm(3, 24, 3, 2)]
        for expand, kernel, stride, i, o, layers, fused in stages:
            blocks.append(
                nn.Sequential(
                    *(
                        _MBConv(o if n else i, o, expand, kernel, 1 if n else stride, fused)
                        for n in range(layers)
                    )
                )
            )
        self.features = nn.Sequential(*blocks, _Norm(256, 1280))
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, 320), nn.Linear(320, 1))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        return F.l1_loss(self.head(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1)), y)


class EfficientNetB4G16(nn.Module):
    """EfficientNet-B4 with group convolutions of 16 channels, expansion 4 and group norm of 4 groups."""

    def __init__(self):
        super().__init__()
        norm = lambda channels: nn.GroupNorm(4, channels, eps=1e-3)  # noqa: E731
        stages = [
            (1, 3, 1, 48, 24, 2), (4, 3, 2, 24, 32, 4), (4, 5, 2, 32, 56, 4), (4, 3, 2, 56, 112, 6),
            (4, 5, 1, 112, 160, 6), (4, 5, 2, 160, 272, 8), (4, 3, 1, 272, 448, 2),
        ]  # fmt: skip
        self.stem = _Norm(3, 48, 3, 2, norm=norm)
        self.blocks = nn.Sequential(
            *(
                nn.Sequential(
                    *(
                        _MBConv(o if n else i, o, e, k, 1 if n else s, group=8 if i == 24 else 16, norm=norm)
                        for n in range(layers)
                    )
                )
                for e, k, s, i, o, layers in stages
            )
        )
        self.top = _Norm(448, 1792, norm=norm)
        self.classifier = nn.Linear(1792, 1000)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = self.stem(x)
        for number, block in enumerate(self.blocks):
            x = block(x)
            if number in (1, 2):
                x = poptorch.recomputationCheckpoint(x)
        x = F.adaptive_avg_pool2d(self.top(x), 1).flatten(1)
        return F.cross_entropy(self.classifier(F.dropout(x, 0.4)), y)


# --- ResNet-50 v1.5 and ResNeXt-101 32x4d (He et al. 2015, Xie et al. 2016)


class _Bottleneck(nn.Module):
    def __init__(self, i, width, stride, groups, group_width):
        super().__init__()
        inner, o = width * group_width * groups // 64, width * 4
        self.layers = nn.Sequential(
            nn.Conv2d(i, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(inner),
            nn.ReLU(),
            nn.Conv2d(inner, o, 1, bias=False), nn.BatchNorm2d(o),
        )  # fmt: skip
        self.shortcut = (
            nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))
            if stride != 1 or i != o
            else nn.Identity()
        )

    def forward(self, x):
        return F.relu(poptorch.recomputationCheckpoint(self.layers(x) + self.shortcut(x)))


class ResNet(nn.Module):
    """Residual network of bottleneck blocks; sums at the ends of blocks are recomputation checkpoints."""

    def __init__(self, layers=(3, 4, 6, 3), groups=1, group_width=64):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, i = [], 64
        for stage, count in enumerate(layers):
            for n in range(count):
                stride = 2 if stage and not n else 1
                blocks.append(_Bottleneck(i, 64 << stage, stride, groups, group_width))
                i = (64 << stage) * 4
        self.blocks, self.classifier = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1)
        return F.cross_entropy(self.classifier(x), y, label_smoothing=0.1)


# --- The 2022 autoencoder (28 x 28 digits, weight-normalised convolutions with skips)


class _WeightNormConv(nn.Module):
    def __init__(self, i, o, kernel):
        super().__init__()
        self.v, self.g = (
            nn.Parameter(torch.empty(o, i, kernel, kernel)),
            nn.Parameter(torch.empty(o, 1, 1, 1)),
        )
        self.bias = nn.Parameter(torch.empty(o))

    def forward(self, x):
        weight = self.v * (self.g / self.v.square().sum((1, 2, 3), keepdim=True).sqrt())
        return F.conv2d(x, weight, self.bias, padding="same")


class _Scale(nn.Module):
    """Three convolutions beside a skip of one; `resize` halves or doubles the image behind them."""

    def __init__(self, i, o, kernel, skip, resize=None):
        super().__init__()
        self.layers = nn.Sequential(*(_WeightNormConv(i if n == 0 else o, o, kernel) for n in range(3)))
        self.skip, self.resize = skip, resize

    def forward(self, x):
        y = self.layers(x)
        if self.resize is None:
            return y + self.skip(x)
        return F.relu(self.resize(y) + self.skip(x))


class Autoencoder(nn.Module):
    """An encoder to 7 x 7 x 3 and a decoder back, compared with the input by the mean squared error."""

    def __init__(self):
        super().__init__()
        down = lambda i, o: _Scale(i, o, 5, nn.Conv2d(i, o, 1, 2), nn.MaxPool2d(2))  # noqa: E731
        same = lambda i, o: _Scale(i, o, 3, nn.Conv2d(i, o, 1))  # noqa: E731
        up = lambda i, o: _Scale(  # noqa: E731
            i, o, 5, nn.ConvTranspose2d(i, o, 1, 2, output_padding=1), nn.UpsamplingNearest2d(scale_factor=2)
        )
        self.layers = nn.Sequential(
            down(1, 40), same(40, 80), down(80, 130), same(130, 160), _WeightNormConv(160, 3, 3),
            nn.ConvTranspose2d(3, 160, 3, padding=1), same(160, 160), up(160, 130), same(130, 80), up(80, 40),
            nn.ConvTranspose2d(40, 1, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        return F.mse_loss(self.layers(x), y)


# --- U-Net for medical images (Ronneberger et al. 2015; 572 x 572 without padding)


class UNet(nn.Module):
    """U-Net with 64 to 1024 channels; `levels` are its nine double convolutions, four down, one, four up."""

    def __init__(self):
        super().__init__()
        widths = [64, 128, 256, 512, 1024]
        double = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3), nn.ReLU(), nn.Conv2d(o, o, 3), nn.ReLU())  # noqa: E731
        down = [double(i, o) for i, o in zip([1, *widths], widths, strict=False)]
        up = [double(2 * o, o) for o in widths[-2::-1]]
        self.levels = nn.ModuleList([*down, *up])
        self.ups = nn.ModuleList([nn.ConvTranspose2d(2 * o, o, 2, 2) for o in widths[-2::-1]])
        self.last = nn.Conv2d(64, 2, 1)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        skipped = []
        for level in self.levels[:4]:
            x = level(x)
            skipped.append(x)
            x = F.max_pool2d(x, 2)
        x = F.dropout(self.levels[4](x), 0.5)
        for up, level in zip(self.ups, self.levels[5:], strict=True):
            x, other = up(x), skipped.pop()
            edge = (other.shape[2] - x.shape[2]) // 2
            x = level(torch.cat([other[:, :, edge : edge + x.shape[2], edge : edge + x.shape[3]], x], 1))
        return F.cross_entropy(self.last(x), y)


# --- The two small networks of the vendor's tutorials


class TutorialCNN(nn.Module):
    """Two convolutions and two linear layers on 128 x 128 images (tutorial on efficient data loading)."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = nn.Conv2d(1, 5, 3), nn.Conv2d(5, 12, 5), nn.GroupNorm(3, 12)
        self.hidden, self.classifier = nn.Linear(41772, 100), nn.Linear(100, 10)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = self.norm(F.relu(self.second(F.max_pool2d(F.relu(self.first(x)), 2))))
        x = self.classifier(F.relu(self.hidden(x.flatten(1))))
        return F.nll_loss(F.log_softmax(x, 0), y)


class KerasCNN(nn.Module):
    """Two convolutions with pooling and one linear layer on 28 x 28 digits (Keras tutorial)."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.classifier = (
            nn.Conv2d(1, 32, 3),
            nn.Conv2d(32, 64, 3),
            nn.Linear(1600, 10),
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a micro-batch."""
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return F.cross_entropy(self.classifier(F.dropout(x.flatten(1), 0.5)), y)
