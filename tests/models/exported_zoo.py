"""Small nets of 60 real architectures and 30 coupled ones, exported by torch.export, and PyTorch's answers to them.

    pip install torch==2.11.0 && python exported_zoo.py FOLDER

Each net is `FOLDER/NAME.pt2`, as in `exported.py`, which writes the answers to 1, 2, 7 and the largest batch of rows.
`FOLDER/kinds.json` has `independent` or `coupled` for each name. The files take 10 MB and are not committed; the
program `tests/scenarios/exported_zoo.py` serves them and compares.
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

import exported
from exported import Model, floats

D = 16


def ids(limit, *shape):
    return lambda rows: (torch.randint(0, limit, (rows, *shape)),)


def conv(a, b, k=3, stride=1, groups=1, act=nn.ReLU):
    return nn.Sequential(nn.Conv2d(a, b, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(b), act())


class Residual(nn.Module):
    def __init__(self, a, b, stride):
        super().__init__()
        self.one, self.two = conv(a, b, 3, stride), nn.Sequential(nn.Conv2d(b, b, 3, 1, 1), nn.BatchNorm2d(b))
        self.short = nn.Identity() if a == b and stride == 1 else nn.Conv2d(a, b, 1, stride)

    def forward(self, x):
        return F.relu(self.two(self.one(x)) + self.short(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.body = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1))
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


class SqueezeExcite(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.up = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))


class MobileBlock(nn.Module):
    def __init__(self, width, act, excite):
        super().__init__()
        self.body = nn.Sequential(
            conv(width, 2 * width, 1, act=act),
            conv(2 * width, 2 * width, 3, groups=2 * width, act=act),
            SqueezeExcite(2 * width) if excite else nn.Identity(),
            nn.Conv2d(2 * width, width, 1),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return x + self.body(x)


def mobile(act, excite):
    return nn.Sequential(
        conv(3, 8, 3, 2, act=act), MobileBlock(8, act, excite), MobileBlock(8, act, excite),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 10),
    )


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.BatchNorm2d(4 + 4 * i), nn.ReLU(), nn.Conv2d(4 + 4 * i, 4, 3, 1, 1)) for i in range(3)])
        self.stem, self.head = nn.Conv2d(3, 4, 3), nn.Linear(16, 5)

    def forward(self, x):
        parts = [self.stem(x)]
        for layer in self.layers:
            parts.append(layer(torch.cat(parts, 1)))
        return self.head(torch.cat(parts, 1).mean([2, 3]))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(3, 4, 1), conv(3, 4, 3), conv(3, 4, 5)
        self.head = nn.Linear(15, 5)

    def forward(self, x):
        y = torch.cat([self.a(x), self.b(x), self.c(x), F.avg_pool2d(x, 3, 1, 1)], 1)
        return self.head(torch.flatten(F.adaptive_max_pool2d(y, (1, 1)), 1))


class ShuffleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.branch, self.head = conv(3, 8, 3, 2), conv(4, 4, 3, groups=4), nn.Linear(8, 5)

    def forward(self, x):
        left, right = self.stem(x).chunk(2, dim=1)
        y = torch.cat((left, self.branch(right)), 1)
        b, c, h, w = y.size()
        y = y.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)
        return self.head(y.mean([2, 3]))


class ConvNext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)
        self.scale, self.head = nn.Parameter(torch.ones(8) * 0.5), nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        x = x + (self.scale * self.down(F.gelu(self.up(y)))).permute(0, 3, 1, 2)
        return self.head(x.mean((-2, -1)))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = conv(1, 4), conv(4, 8), conv(8, 4)
        self.up, self.out = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.up(self.b(F.max_pool2d(a, 2)))
        dy, dx = a.shape[2] - b.shape[2], a.shape[3] - b.shape[3]
        b = F.pad(b, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.out(self.c(torch.cat([a, b], dim=1)))


class Segment(nn.Module):
    """A net like DeepLab: dilated convolutions, pooled context, and a resize to the size of the input."""

    def __init__(self):
        super().__init__()
        self.body, self.one = conv(3, 8, 3, 2), nn.Conv2d(8, 8, 3, padding=2, dilation=2)
        self.pooled, self.head = nn.Conv2d(8, 8, 1), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        y = self.body(x)
        pooled = F.interpolate(self.pooled(y.mean((2, 3), keepdim=True)), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([self.one(y), pooled], 1))
        return {"out": F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False), "label": y.argmax(1)}


class Attention(nn.Module):
    def __init__(self, d=D, heads=2, causal=False):
        super().__init__()
        self.qkv, self.out, self.heads, self.causal = nn.Linear(d, 3 * d), nn.Linear(d, d), heads, causal

    def forward(self, x, mask=None):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, d=D, causal=False):
        super().__init__()
        self.n1, self.n2, self.attention = nn.LayerNorm(d), nn.LayerNorm(d), Attention(d, causal=causal)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, mask=None):
        x = x + self.attention(self.n1(x), mask)
        return x + self.mlp(self.n2(x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, D, 8, 8), nn.Parameter(torch.randn(1, 1, D))
        self.pos, self.body, self.head = nn.Parameter(torch.randn(1, 5, D)), nn.Sequential(Block(), Block()), nn.Linear(D, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.pos
        return self.head(self.body(x)[:, 0])


class Swin(nn.Module):
    """Attention in shifted windows, with a relative bias by index."""

    def __init__(self):
        super().__init__()
        self.patch, self.qkv, self.out, self.head = nn.Conv2d(3, D, 2, 2), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.Linear(D, 5)
        self.table = nn.Parameter(torch.randn(49, 2))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        between = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("index", between[..., 0] * 7 + between[..., 1])

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        y = torch.roll(x, (-2, -2), (1, 2))
        y = y.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(y).reshape(-1, 16, 3, 2, c // 2).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(16, 16, 2).permute(2, 0, 1)
        y = ((q * 0.35) @ k.transpose(-2, -1) + bias.unsqueeze(0)).softmax(-1) @ v
        y = self.out(y.transpose(1, 2).reshape(-1, 16, c))
        y = y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return self.head((x + torch.roll(y, (2, 2), (1, 2))).mean((1, 2)))


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch, self.n1, self.n2 = nn.Conv2d(3, D, 4, 4), nn.LayerNorm(D), nn.LayerNorm(D)
        self.tokens, self.channels, self.head = nn.Linear(16, 16), nn.Linear(D, D), nn.Linear(D, 5)

    def forward(self, x):
        x = torch.einsum("bchw->bhwc", self.patch(x)).flatten(1, 2)
        x = x + self.tokens(self.n1(x).mT).mT
        return self.head((x + F.gelu(self.channels(self.n2(x)))).mean(1))


class Bert(nn.Module):
    """Token types and positions are made in forward, and the mask is added to the scores, as in transformers."""

    def __init__(self):
        super().__init__()
        self.word, self.pos, self.kind = nn.Embedding(50, D, padding_idx=0), nn.Embedding(32, D), nn.Embedding(2, D)
        self.register_buffer("ids", torch.arange(32).expand((1, -1)), persistent=False)
        self.norm, self.blocks, self.pool, self.head = nn.LayerNorm(D), nn.ModuleList([Block(), Block()]), nn.Linear(D, D), nn.Linear(D, 3)

    def forward(self, input_ids, attention_mask):
        b, n = input_ids.shape
        kinds = torch.zeros(input_ids.size(), dtype=torch.long, device=input_ids.device)
        x = self.norm(self.word(input_ids) + self.pos(self.ids[:, :n]) + self.kind(kinds))
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        mask = mask.expand(b, 1, n, n)
        for block in self.blocks:
            x = block(x, mask)
        return {"last_hidden_state": x, "logits": self.head(torch.tanh(self.pool(x[:, 0])))}


def tokens(rows):
    mask = torch.ones(rows, 6, dtype=torch.int64)
    mask[::2, 4:] = 0
    return torch.randint(1, 50, (rows, 6)), mask


class Roberta(Bert):
    """Positions count the tokens that are not padding."""

    def forward(self, input_ids, attention_mask):
        mask = input_ids.ne(0).int()
        at = (torch.cumsum(mask, dim=1).type_as(mask) * mask).long()
        x = self.norm(self.word(input_ids) + self.pos(at))
        keep = attention_mask.bool()[:, None, None, :]
        for block in self.blocks:
            x = block(x, keep)
        hidden = x * attention_mask.unsqueeze(-1)
        pooled = hidden.sum(1) / attention_mask.sum(1, keepdim=True).clamp(min=1)
        return F.normalize(pooled, p=2, dim=1)


class Gpt(nn.Module):
    def __init__(self, explicit=False):
        super().__init__()
        self.word, self.pos, self.explicit = nn.Embedding(50, D), nn.Embedding(32, D), explicit
        self.blocks, self.norm = nn.ModuleList([Block(causal=not explicit), Block(causal=not explicit)]), nn.LayerNorm(D)
        self.head = nn.Linear(D, 50, bias=False)
        self.head.weight = self.word.weight

    def forward(self, ids):
        b, n = ids.shape
        at = torch.arange(0, n, dtype=torch.long, device=ids.device).unsqueeze(0).view(-1, n)
        x = self.word(ids) + self.pos(at)
        mask = None
        if self.explicit:
            mask = torch.full((n, n), float("-inf")).triu(diagonal=1)[None, None].expand(b, 1, n, n)
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


class Llama(nn.Module):
    """RMS norm, rotary positions, grouped queries and a gated MLP."""

    def __init__(self):
        super().__init__()
        self.word, self.w = nn.Embedding(50, D), nn.Parameter(torch.ones(D))
        self.q, self.kv, self.o = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.gate, self.up, self.down = nn.Linear(D, 32), nn.Linear(D, 32), nn.Linear(32, D)
        self.register_buffer("freq", 1.0 / (10000 ** (torch.arange(0, 4, 2).float() / 4)))

    def norm(self, x):
        return self.w * (x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def rotate(self, x, cos, sin):
        half = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)
        return x * cos + half * sin

    def forward(self, input_ids):
        x = self.word(input_ids)
        b, n, d = x.shape
        at = torch.arange(n, device=x.device).unsqueeze(0)
        with torch.no_grad():
            freq = (self.freq[None, :, None].float().expand(at.shape[0], -1, 1) @ at[:, None, :].float()).transpose(1, 2)
            both = torch.cat((freq, freq), dim=-1)
            cos, sin = both.cos().unsqueeze(1), both.sin().unsqueeze(1)
        y = self.norm(x)
        q = self.rotate(self.q(y).view(b, n, 4, 4).transpose(1, 2), cos, sin)
        k, v = self.kv(y).view(b, n, 4, 4).transpose(1, 2).split(2, dim=1)
        k = self.rotate(k, cos, sin)[:, :, None].expand(b, 2, 2, n, 4).reshape(b, 4, n, 4)
        v = v[:, :, None, :, :].expand(b, 2, 2, n, 4).reshape(b, 4, n, 4)
        mask = torch.tril(torch.ones(n, n, dtype=torch.bool, device=x.device))
        scores = (q @ k.transpose(2, 3) / math.sqrt(4)).masked_fill(~mask, torch.finfo(x.dtype).min)
        x = x + self.o((F.softmax(scores, dim=-1, dtype=torch.float32) @ v).transpose(1, 2).reshape(b, n, -1))
        return x + self.down(F.silu(self.gate(self.norm(x))) * self.up(x))


class T5(nn.Module):
    """A relative bias by buckets of distances, added to unscaled scores."""

    def __init__(self):
        super().__init__()
        self.word, self.bias = nn.Embedding(50, D), nn.Embedding(8, 2)
        self.qkv, self.o = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)

    def buckets(self, n):
        at = torch.arange(n, dtype=torch.long)
        apart = at[None, :] - at[:, None]
        side = (apart > 0).to(torch.long) * 4
        apart = torch.abs(apart)
        far = 2 + (torch.log(apart.float() / 2) / math.log(4) * 2).to(torch.long)
        return side + torch.where(apart < 2, apart, torch.min(far, torch.full_like(far, 3)))

    def forward(self, ids, mask):
        x = self.word(ids)
        b, n, d = x.shape
        q, k, v = (t.view(b, -1, 2, 8).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        scores = torch.matmul(q, k.transpose(3, 2)) + self.bias(self.buckets(n)).permute([2, 0, 1]).unsqueeze(0)
        scores = scores + (1.0 - mask[:, None, None, :].float()) * -1e9
        return x + self.o(torch.matmul(F.softmax(scores.float(), dim=-1).type_as(scores), v).transpose(1, 2).contiguous().view(b, -1, d))


class Decoder(nn.Module):
    """torch.nn's transformer with a causal target, over an encoded source."""

    def __init__(self):
        super().__init__()
        self.source, self.target = nn.Embedding(50, D), nn.Embedding(50, D)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 32, batch_first=True, norm_first=True), 1, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(D, 2, 32, batch_first=True), 1)

    def forward(self, source, target):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.decoder(self.target(target), self.encoder(self.source(source)), tgt_mask=causal)


class Alibi(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.attention, self.head = nn.Embedding(50, D), Attention(), nn.Linear(D, 4)
        self.register_buffer("slopes", torch.tensor([0.25, 0.0625]))

    def forward(self, ids):
        n = ids.shape[1]
        apart = (torch.arange(n)[None, :] - torch.arange(n)[:, None]).abs()
        x = self.attention(self.word(ids), -(apart[None] * self.slopes[:, None, None])[None])
        last = ids.ne(0).sum(-1) - 1
        return self.head(x[torch.arange(ids.shape[0]), last])


class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.n3, self.attention = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D), Attention()
        self.up, self.depth, self.bn, self.down = nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, 5, padding=2, groups=D), nn.BatchNorm1d(D), nn.Conv1d(D, D, 1)
        self.mlp, self.head = nn.Sequential(nn.Linear(D, 32), nn.SiLU(), nn.Linear(32, D)), nn.Linear(D, 9)

    def forward(self, x):
        x = x + 0.5 * self.mlp(self.n1(x))
        x = x + self.attention(self.n2(x))
        y = F.glu(self.up(self.n3(x).transpose(1, 2)), dim=1)
        x = x + self.down(F.silu(self.bn(self.depth(y)))).transpose(1, 2)
        return F.log_softmax(self.head(x), dim=-1)


class Wav2Vec(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv1d(1, 8, 10, 5, bias=False), nn.GroupNorm(8, 8), nn.Conv1d(8, D, 3, 2)
        self.pos = nn.utils.parametrizations.weight_norm(nn.Conv1d(D, D, 4, padding=2, groups=2), dim=2)
        self.block, self.head = Block(), nn.Linear(D, 7)

    def forward(self, wave):
        wave = (wave - wave.mean(-1, keepdim=True)) / torch.sqrt(wave.var(-1, keepdim=True) + 1e-7)
        x = F.gelu(self.b(F.gelu(self.norm(self.a(wave.unsqueeze(1)))))).transpose(1, 2)
        x = x + F.gelu(self.pos(x.transpose(1, 2))[:, :, :-1]).transpose(1, 2)
        return self.head(self.block(x))


class Spectrogram(nn.Module):
    """A mel spectrogram in the net, as audio models have."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("mel", torch.rand(17, 8))
        self.head = nn.Linear(8, 4)

    def forward(self, wave):
        x = torch.stft(wave, 32, 16, window=self.window, center=True, return_complex=True).abs() ** 2
        x = torch.log10(torch.clamp(x.transpose(1, 2) @ self.mel, min=1e-10))
        x = torch.maximum(x, x.amax(dim=(1, 2), keepdim=True) - 8.0)
        return self.head(x.mean(1))


class Fnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.norm, self.head = nn.Embedding(50, D), nn.LayerNorm(D), nn.Linear(D, 3)

    def forward(self, ids):
        x = self.word(ids)
        x = self.norm(x + torch.fft.fft(torch.fft.fft(x, dim=-1), dim=-2).real)
        y = torch.fft.irfft(torch.fft.rfft(x, dim=1, norm="ortho") * 0.5, n=x.shape[1], dim=1, norm="ortho")
        return self.head((x + y).mean(1))


class Mamba(nn.Module):
    """A selective state space, whose scan over time is a loop that the export unrolls."""

    def __init__(self):
        super().__init__()
        self.up, self.conv, self.x, self.dt = nn.Linear(D, 32), nn.Conv1d(D, D, 4, groups=D, padding=3), nn.Linear(D, 9), nn.Linear(1, D)
        self.a, self.d, self.down = nn.Parameter(torch.rand(D, 4)), nn.Parameter(torch.ones(D)), nn.Linear(D, D)

    def forward(self, u):
        b, n, d = u.shape
        x, z = self.up(u).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :n].transpose(1, 2))
        dt, B, C = self.x(x).split([1, 4, 4], dim=-1)
        dt = F.softplus(self.dt(dt))
        A = torch.exp(torch.einsum("bld,dn->bldn", dt, -torch.exp(self.a)))
        Bu = torch.einsum("bld,bln,bld->bldn", dt, B, x)
        state, ys = torch.zeros(b, d, 4, device=u.device), []
        for t in range(n):
            state = A[:, t] * state + Bu[:, t]
            ys.append(torch.einsum("bdn,bn->bd", state, C[:, t, :]))
        y = torch.stack(ys, dim=1) + x * self.d
        return self.down(y * F.silu(z))


class LinearAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(D, 3 * D)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (2, 8)) for t in self.qkv(x).chunk(3, dim=-1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("nshd,nshm->nhmd", k, v)
        z = 1 / (torch.einsum("nlhd,nhd->nlh", q, k.sum(dim=1)) + 1e-6)
        return torch.einsum("nlhd,nhmd,nlh->nlhm", q, kv, z).flatten(-2)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.lstm, self.head = nn.Embedding(50, 8), nn.LSTM(8, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 4)

    def forward(self, ids):
        y, _ = self.lstm(self.word(ids))
        return self.head(torch.cat((y[:, -1, :8], y[:, 0, 8:]), dim=1)), self.head(y)


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(5, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x):
        h0 = torch.zeros(1, x.size(0), 8)
        y, _ = self.gru(x, h0)
        return self.head(y[:, -1, :])


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.LSTMCell(5, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 8)
        c = torch.zeros(x.shape[0], 8)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
        return self.head(h)


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.head = nn.GRU(5, 8), nn.Linear(8, 2)

    def forward(self, x):
        y, h = self.gru(x.permute(1, 0, 2))
        return self.head(y.permute(1, 0, 2)), self.head(h.squeeze(0))


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3)])
        self.bottom, self.top = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8 + 6, 1)
        self.register_buffer("li", torch.tensor([i for i in range(4) for j in range(i)]))
        self.register_buffer("lj", torch.tensor([j for i in range(4) for j in range(i)]))

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        parts = [x] + [table(sparse[:, i : i + 1]) for i, table in enumerate(self.tables)]
        t = torch.cat(parts, dim=1).view(x.shape[0], -1, 8)
        z = torch.bmm(t, torch.transpose(t, 1, 2))[:, self.li, self.lj]
        return torch.sigmoid(self.top(torch.cat([x, z], 1)))


class DeepFm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("offsets", torch.tensor([0, 10, 20]))
        self.first, self.second = nn.Embedding(30, 1), nn.Embedding(30, 4)
        self.mlp, self.bias = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)), nn.Parameter(torch.zeros(1))

    def forward(self, fields):
        x = fields + self.offsets.unsqueeze(0)
        e = self.second(x)
        fm = 0.5 * (torch.sum(e, dim=1) ** 2 - torch.sum(e**2, dim=1)).sum(1, keepdim=True)
        return torch.sigmoid((torch.sum(self.first(x), dim=1) + self.bias + fm + self.mlp(e.view(-1, 12))).squeeze(1))


class TwoTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(20, 8), nn.Embedding(30, 8)
        self.tower, self.register = nn.Linear(8, 8), None

    def forward(self, user, item, history):
        taste = self.item(history).mean(1)
        u = F.normalize(self.tower(self.user(user) + taste), dim=-1)
        v = F.normalize(self.item(item), dim=-1)
        return {"score": (u * v).sum(-1), "similarity": F.cosine_similarity(u, v)}


class Ranker(nn.Module):
    """Scores every item of a catalogue and returns the best."""

    def __init__(self):
        super().__init__()
        self.user, self.items = nn.Embedding(20, 8), nn.Embedding(30, 8)

    def forward(self, user):
        scores = self.user(user) @ self.items.weight.t()
        best = torch.topk(scores, 5, dim=1)
        return best.values, best.indices, self.items(best.indices)


class WideDeep(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.deep, self.e = nn.Linear(20, 1), nn.Sequential(nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 1)), nn.Embedding(20, 4)

    def forward(self, categories):
        one_hot = F.one_hot(categories, 20).sum(1).clamp(max=1).float()
        return torch.sigmoid(self.wide(one_hot) + self.deep(self.e(categories).flatten(1)))


class CrossNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.ParameterList([nn.Parameter(torch.randn(6, 1)) for _ in range(2)])
        self.b = nn.ParameterList([nn.Parameter(torch.randn(6)) for _ in range(2)])

    def forward(self, x):
        y = x
        for w, b in zip(self.w, self.b):
            y = x * torch.matmul(y, w) + b + y
        return y


class TabTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(10, D) for _ in range(3)])
        self.block, self.norm, self.head = Block(), nn.LayerNorm(4), nn.Linear(3 * D + 4, 2)

    def forward(self, categories, numbers):
        x = torch.stack([table(categories[:, i]) for i, table in enumerate(self.tables)], dim=1)
        return self.head(torch.cat((self.block(x).flatten(1), self.norm(numbers)), dim=-1)).softmax(dim=-1)


class Ssd(nn.Module):
    """Heads on two scales; boxes are decoded against constant anchors."""

    def __init__(self):
        super().__init__()
        self.a, self.b = conv(3, 8, 3, 4), conv(8, 8, 3, 2)
        self.box, self.score = nn.ModuleList([nn.Conv2d(8, 8, 3, 1, 1) for _ in range(2)]), nn.ModuleList([nn.Conv2d(8, 6, 3, 1, 1) for _ in range(2)])
        self.register_buffer("anchors", torch.rand(40, 4))

    def forward(self, x):
        boxes, scores = [], []
        for level, box, score in zip((y := self.a(x), self.b(y)), self.box, self.score):
            boxes.append(box(level).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4))
            scores.append(score(level).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 3))
        boxes, scores = torch.cat(boxes, 1), torch.cat(scores, 1).softmax(-1)
        center = self.anchors[:, :2] + boxes[..., :2] * 0.1 * self.anchors[:, 2:]
        size = self.anchors[:, 2:] * torch.exp(boxes[..., 2:] * 0.2)
        return {"boxes": torch.cat([center - size / 2, center + size / 2], -1), "scores": scores}


class Yolo(nn.Module):
    """A head with a grid and a distribution of distances, as of YOLOv8."""

    def __init__(self):
        super().__init__()
        self.body, self.box, self.score = conv(3, 8, 3, 4, act=nn.SiLU), nn.Conv2d(8, 16, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        y = self.body(x)
        b, _, h, w = y.shape
        box = self.box(y).view(b, 4, 4, h * w).transpose(2, 1).softmax(1)
        box = (box * torch.arange(4.0).view(1, 4, 1, 1)).sum(1)
        gy, gx = torch.meshgrid(torch.arange(h) + 0.5, torch.arange(w) + 0.5, indexing="ij")
        grid = torch.stack((gx, gy), -1).view(-1, 2).transpose(0, 1).unsqueeze(0)
        lt, rb = box.chunk(2, 1)
        lt, rb = grid - lt, grid + rb
        return torch.cat((torch.cat(((lt + rb) / 2, rb - lt), 1) * 4, self.score(y).view(b, 3, -1).sigmoid()), 1)


class CenterNet(nn.Module):
    """Peaks of a heat map, found by pooling, and the best of each image with its offsets."""

    def __init__(self):
        super().__init__()
        self.body, self.heat, self.offset = conv(3, 8, 3, 2), nn.Conv2d(8, 2, 1), nn.Conv2d(8, 2, 1)

    def forward(self, x):
        y = self.body(x)
        heat = self.heat(y).sigmoid()
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat).float()
        score, at = torch.topk(heat.view(heat.size(0), -1), 4)
        cell = at % (heat.shape[2] * heat.shape[3])
        offset = self.offset(y).permute(0, 2, 3, 1).flatten(1, 2)
        offset = offset.gather(1, cell.unsqueeze(2).expand(cell.size(0), cell.size(1), 2))
        return score, torch.div(at, heat.shape[2] * heat.shape[3], rounding_mode="trunc"), offset


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.t, self.b, self.head = nn.Sequential(nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU()), nn.Linear(16, 9), nn.Conv1d(3, 16, 1), nn.Linear(32, 5)

    def forward(self, points):
        t = self.t(torch.max(self.a(points), 2, keepdim=True)[0].view(-1, 16))
        t = (t + torch.eye(3).flatten().view(1, 9).repeat(points.size()[0], 1)).view(-1, 3, 3)
        y = self.b(torch.bmm(points.transpose(2, 1), t).transpose(2, 1))
        return self.head(torch.cat([y.max(2)[0], y.mean(2)], 1))


class Gcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x, adjacency):
        adjacency = adjacency + torch.eye(adjacency.size(-1))
        scale = adjacency.sum(-1).clamp(min=1).pow(-0.5)
        adjacency = scale.unsqueeze(-1) * adjacency * scale.unsqueeze(-2)
        x = F.relu(self.a(torch.matmul(adjacency, x)))
        return self.b(torch.bmm(adjacency, x)).mean(1)


class Gat(nn.Module):
    def __init__(self):
        super().__init__()
        self.w, self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x, adjacency):
        h = self.w(x)
        e = F.leaky_relu(self.a(h) + self.b(h).transpose(-1, -2), 0.2)
        e = torch.where(adjacency > 0, e, torch.full_like(e, -9e15))
        return F.elu(torch.softmax(e, -1) @ h).amax(1)


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 32)
        self.body = nn.Sequential(nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.BatchNorm2d(8), nn.LeakyReLU(0.2, True), nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.body(self.up(z).view(z.size(0), 8, 2, 2))


class Vq(nn.Module):
    """The nearest vector of a codebook."""

    def __init__(self):
        super().__init__()
        self.book = nn.Parameter(torch.randn(12, 4))

    def forward(self, x):
        flat = x.permute(0, 2, 3, 1).reshape(-1, 4)
        apart = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.book.t() + self.book.pow(2).sum(1)
        at = apart.argmin(1)
        return F.embedding(at, self.book).view(x.shape[0], x.shape[2], x.shape[3], 4).permute(0, 3, 1, 2), at.view(x.shape[0], -1)


class Diffusion(nn.Module):
    """A block of a diffusion net: the time's embedding shifts and scales normalised features."""

    def __init__(self):
        super().__init__()
        self.time, self.norm, self.a, self.attention = nn.Linear(8, 16), nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, 1, 1), nn.MultiheadAttention(8, 2, batch_first=True)
        self.stem, self.out, self.context = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 3, 3, 1, 1), nn.Linear(5, 8)

    def forward(self, x, time, context):
        freq = torch.exp(-math.log(10000) * torch.arange(0, 4, dtype=torch.float32) / 4)
        args = time[:, None].float() * freq[None]
        scale, shift = self.time(torch.cat([torch.cos(args), torch.sin(args)], dim=-1))[:, :, None, None].chunk(2, dim=1)
        x = self.stem(x)
        h = self.a(F.silu(self.norm(x) * (1 + scale) + shift))
        b, c, height, width = h.shape
        y, _ = self.attention(h.view(b, c, -1).transpose(1, 2), self.context(context), self.context(context), need_weights=False)
        h = F.interpolate(x + h + y.transpose(1, 2).reshape(b, c, height, width), scale_factor=2.0, mode="nearest")
        return self.out(h)


class Moe(nn.Module):
    """Experts that are all computed and weighed by a gate that keeps the best two."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(D, 4), nn.ModuleList([nn.Linear(D, D) for _ in range(4)])

    def forward(self, x):
        best, at = torch.topk(self.gate(x), 2, dim=-1)
        gates = torch.zeros_like(self.gate(x)).scatter(-1, at, F.softmax(best, dim=-1))
        return torch.einsum("be,bed->bd", gates, torch.stack([expert(x) for expert in self.experts], dim=1))


class MoeWeights(nn.Module):
    """Experts whose weights are gathered by the gate's choice."""

    def __init__(self):
        super().__init__()
        self.gate, self.w = nn.Linear(D, 4), nn.Parameter(torch.randn(4, D, 8))

    def forward(self, x):
        best, at = self.gate(x).softmax(-1).topk(2, -1)
        y = torch.einsum("bd,bkdf->bkf", x, self.w[at])
        return (y * best.unsqueeze(-1)).sum(1)


class Flow(nn.Module):
    """Affine coupling layers with their log-determinant."""

    def __init__(self):
        super().__init__()
        self.nets = nn.ModuleList([nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(2)])

    def forward(self, z):
        total = torch.zeros(z.shape[0], device=z.device)
        for net in self.nets:
            a, b = z[:, ::2], z[:, 1::2]
            s, t = net(a).chunk(2, dim=1)
            s = torch.tanh(s)
            b = b * s.exp() + t
            total = total + s.sum(dim=1)
            z = torch.stack((b, a), dim=2).flatten(1)
        return z, total


class Tcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Conv1d(3, 8, 3, dilation=1), nn.Conv1d(8, 8, 3, dilation=2), nn.Linear(8, 2)

    def forward(self, x):
        y = F.relu(self.a(F.pad(x, (2, 0))))
        y = F.relu(self.b(F.pad(y, (4, 0))))
        return self.head(y[:, :, -1])


class NBeats(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(2)])
        self.register_buffer("back", torch.stack([torch.linspace(0, 1, 12) ** i for i in range(4)]))
        self.register_buffer("ahead", torch.stack([torch.linspace(0, 1, 5) ** i for i in range(4)]))

    def forward(self, x):
        rest, forecast = x.flip(1), torch.zeros(x.size(0), 5)
        for block in self.blocks:
            theta = block(rest)
            rest = rest - theta[:, :4] @ self.back
            forecast = forecast + torch.einsum("bp,pt->bt", theta[:, 4:], self.ahead)
        return x[:, -1:] + forecast


class DLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.trend, self.season = nn.Linear(12, 4), nn.Linear(12, 4)

    def forward(self, x):
        front, end = x[:, 0:1, :].repeat(1, 2, 1), x[:, -1:, :].repeat(1, 2, 1)
        trend = F.avg_pool1d(torch.cat([front, x, end], dim=1).permute(0, 2, 1), 5, 1).permute(0, 2, 1)
        season = x - trend
        y = self.season(season.permute(0, 2, 1)) + self.trend(trend.permute(0, 2, 1))
        return y.permute(0, 2, 1)


class PatchTst(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.block, self.head = nn.Linear(4, D), Block(), nn.Linear(5 * D, 3)

    def forward(self, x):
        mean, std = x.mean(1, keepdim=True).detach(), torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + 1e-5)
        y = ((x - mean) / std).permute(0, 2, 1)
        y = y.unfold(dimension=-1, size=4, step=2)
        b, c, n, p = y.shape
        y = self.block(self.embed(y.reshape(b * c, n, p))).reshape(b, c, -1)
        return self.head(y).permute(0, 2, 1) * std + mean


class TextCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.convs, self.head = nn.Embedding(50, 8), nn.ModuleList([nn.Conv2d(1, 4, (k, 8)) for k in (2, 3)]), nn.Linear(8, 3)

    def forward(self, ids):
        x = self.word(ids).unsqueeze(1)
        ys = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        return self.head(torch.cat([F.max_pool1d(y, y.size(2)).squeeze(2) for y in ys], 1))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 8))

    def forward(self, left, right):
        return F.pairwise_distance(self.body(left), self.body(right))


class Siren(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(3))
        self.a, self.b = nn.Linear(12, 16), nn.Linear(16, 3)

    def forward(self, at):
        x = (at[..., None] * self.bands * math.pi).flatten(-2)
        return self.b(torch.sin(30 * self.a(torch.cat([x.sin(), x.cos()], -1))))


class SpatialTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta, self.head = nn.Linear(64, 6), nn.Linear(64, 3)

    def forward(self, x):
        theta = self.theta(x.flatten(1)).view(-1, 2, 3)
        y = F.grid_sample(x, F.affine_grid(theta, x.size(), align_corners=False), align_corners=False)
        return self.head(y.flatten(1))


class SuperResolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 8, 3, 1, 1), nn.Conv2d(8, 4, 3, 1, 1)

    def forward(self, x):
        y = F.pixel_shuffle(self.b(F.prelu(self.a(x), torch.tensor([0.2]))), 2)
        return (y + F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)).clamp(0, 1)


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.bn, self.head = nn.Conv3d(3, 4, (3, 3, 3), padding=1), nn.Conv3d(4, 4, (1, 3, 3), (1, 2, 2)), nn.BatchNorm3d(4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool3d(F.relu(self.bn(self.b(F.relu(self.a(x))))), 1).flatten(1))


class FrameWise(nn.Module):
    """An image net on each frame of a clip, whose frames are folded into the batch."""

    def __init__(self):
        super().__init__()
        self.body, self.lstm, self.head = nn.Sequential(conv(3, 8, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, clip):
        b, t = clip.shape[:2]
        y, (h, _) = self.lstm(self.body(clip.flatten(0, 1)).view(b, t, -1))
        return self.head(y[:, -1]) + self.head(h[-1])


class Clip(nn.Module):
    """An image with its own text: the similarity of each pair, not of all pairs."""

    def __init__(self):
        super().__init__()
        self.image, self.word, self.scale = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Flatten(), nn.Linear(32, 8)), nn.Embedding(50, 8), nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        a = self.image(image)
        x = self.word(text)
        b = x[torch.arange(x.shape[0]), text.argmax(dim=-1)]
        a, b = a / a.norm(dim=1, keepdim=True), b / b.norm(dim=1, keepdim=True)
        return self.scale.exp() * torch.einsum("nd,nd->n", a, b)


class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents, self.attention, self.head = nn.Parameter(torch.randn(4, D)), nn.MultiheadAttention(D, 2, batch_first=True), nn.Linear(D, 3)

    def forward(self, x):
        latents = self.latents.unsqueeze(0).repeat(x.shape[0], 1, 1)
        y, weights = self.attention(latents, x, x)
        return self.head(y.mean(1)), weights


class Mdn(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 9)

    def forward(self, x):
        pi, mu, sigma = self.body(x).split(3, dim=1)
        pi, sigma = F.softmax(pi, 1), F.softplus(sigma)
        mean = (pi * mu).sum(1, keepdim=True)
        return mean, (pi * (sigma.square() + (mu - mean).square())).sum(1).sqrt(), torch.logsumexp(pi.log() + mu, 1)


class Guarded(nn.Module):
    """no_grad inside of forward, as hand-written wrappers have."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.body(x).relu()
            scale = y.amax(1, keepdim=True) + 1
        return self.head(y * 2 / scale).softmax(-1)


class Wrapped(nn.Module):
    """Normalisation of pixels before a net and class probabilities after it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1))
        self.net = ResNet()

    def forward(self, image):
        x = image.permute(0, 3, 1, 2).float() / 255
        p = self.net((x - self.mean) / 0.25).softmax(1)
        score, label = p.max(dim=1)
        return {"score": score, "label": label, "sure": score > 0.5}


class Crf(nn.Module):
    """The best path of tags (Viterbi), by a loop over time."""

    def __init__(self):
        super().__init__()
        self.emit, self.next = nn.Linear(6, 3), nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        e = self.emit(x)
        score, back = e[:, 0], []
        for t in range(1, x.shape[1]):
            score, at = (score.unsqueeze(2) + self.next + e[:, t].unsqueeze(1)).max(1)
            back.append(at)
        best, tag = score.max(1)
        path = [tag]
        for at in reversed(back):
            path.append(at.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return best, torch.stack(path[::-1], 1)


class Quantised(nn.Module):
    """Weights of 8 bits that are scaled in forward."""

    def __init__(self):
        super().__init__()
        self.register_buffer("w", torch.randint(-127, 127, (5, 8), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(5, 1) / 50)

    def forward(self, x):
        return F.linear(x, self.w.to(x.dtype) * self.scale)


NETS = {
    "resnet": Model(ResNet(), floats(3, 32, 32)),
    "mobilenet_v2": Model(mobile(nn.ReLU6, False), floats(3, 16, 16)),
    "mobilenet_v3": Model(mobile(nn.Hardswish, True), floats(3, 16, 16)),
    "efficientnet": Model(mobile(nn.SiLU, True), floats(3, 16, 16)),
    "densenet": Model(DenseNet(), floats(3, 12, 12)),
    "inception": Model(Inception(), floats(3, 12, 12)),
    "shufflenet": Model(ShuffleNet(), floats(3, 12, 12)),
    "convnext": Model(ConvNext(), floats(3, 16, 16)),
    "unet": Model(UNet(), floats(1, 16, 16)),
    "deeplab": Model(Segment(), floats(3, 16, 16)),
    "vit": Model(Vit(), floats(3, 16, 16)),
    "swin": Model(Swin(), floats(3, 16, 16)),
    "mlp_mixer": Model(Mixer(), floats(3, 16, 16)),
    "bert": Model(Bert(), tokens, ({1: "length"}, {1: "length"})),
    "roberta": Model(Roberta(), tokens, ({1: "length"}, {1: "length"})),
    "gpt": Model(Gpt(), ids(50, 6), ({1: "length"},)),
    "gpt_mask": Model(Gpt(True), ids(50, 6), ({1: "length"},)),
    "llama": Model(Llama(), ids(50, 6), ({1: "length"},)),
    "t5": Model(T5(), tokens, ({1: "length"}, {1: "length"})),
    "seq2seq": Model(Decoder(), lambda rows: (torch.randint(0, 50, (rows, 6)), torch.randint(0, 50, (rows, 5)))),
    "alibi": Model(Alibi(), lambda rows: (torch.randint(1, 50, (rows, 6)),)),
    "conformer": Model(Conformer(), floats(10, D), ({1: "length"},)),
    "wav2vec": Model(Wav2Vec(), floats(200)),
    "spectrogram": Model(Spectrogram(), floats(160)),
    "fnet": Model(Fnet(), ids(50, 8)),
    "mamba": Model(Mamba(), floats(5, D)),
    "linear_attention": Model(LinearAttention(), floats(6, D), ({1: "length"},)),
    "lstm": Model(Lstm(), ids(50, 6)),
    "gru": Model(Gru(), floats(4, 5)),
    "lstm_cell": Model(Cell(), floats(4, 5)),
    "gru_time_first": Model(TimeFirst(), floats(4, 5)),
    "dlrm": Model(Dlrm(), lambda rows: (torch.randn(rows, 4), torch.randint(0, 20, (rows, 3)))),
    "deepfm": Model(DeepFm(), ids(10, 3)),
    "two_tower": Model(TwoTower(), lambda rows: (torch.randint(0, 20, (rows,)), torch.randint(0, 30, (rows,)), torch.randint(0, 30, (rows, 4)))),
    "ranker": Model(Ranker(), ids(20)),
    "wide_deep": Model(WideDeep(), ids(20, 3)),
    "cross_net": Model(CrossNet(), floats(6)),
    "tab_transformer": Model(TabTransformer(), lambda rows: (torch.randint(0, 10, (rows, 3)), torch.randn(rows, 4))),
    "ssd": Model(Ssd(), floats(3, 16, 16)),
    "yolo": Model(Yolo(), floats(3, 16, 16)),
    "centernet": Model(CenterNet(), floats(3, 16, 16)),
    "pointnet": Model(PointNet(), floats(3, 20)),
    "gcn": Model(Gcn(), lambda rows: (torch.randn(rows, 5, 6), torch.randint(0, 2, (rows, 5, 5)).float())),
    "gat": Model(Gat(), lambda rows: (torch.randn(rows, 5, 6), torch.randint(0, 2, (rows, 5, 5)).float())),
    "vae_decoder": Model(Vae(), floats(8)),
    "vq": Model(Vq(), floats(4, 3, 3)),
    "diffusion": Model(Diffusion(), lambda rows: (torch.randn(rows, 3, 8, 8), torch.randint(0, 1000, (rows,)), torch.randn(rows, 4, 5))),
    "moe": Model(Moe(), floats(D)),
    "moe_weights": Model(MoeWeights(), floats(D)),
    "flow": Model(Flow(), floats(6)),
    "tcn": Model(Tcn(), floats(3, 12)),
    "nbeats": Model(NBeats(), floats(12)),
    "dlinear": Model(DLinear(), floats(12, 3)),
    "patch_tst": Model(PatchTst(), floats(12, 3)),
    "text_cnn": Model(TextCnn(), ids(50, 9)),
    "siamese": Model(Siamese(), lambda rows: (torch.randn(rows, 1, 8, 8), torch.randn(rows, 1, 8, 8))),
    "siren": Model(Siren(), floats(2)),
    "spatial_transformer": Model(SpatialTransformer(), floats(1, 8, 8)),
    "super_resolution": Model(SuperResolution(), floats(1, 8, 8)),
    "video": Model(Video(), floats(3, 4, 12, 12)),
    "frame_wise": Model(FrameWise(), floats(3, 3, 8, 8)),
    "clip": Model(Clip(), lambda rows: (torch.randn(rows, 3, 8, 8), torch.randint(0, 50, (rows, 5)))),
    "perceiver": Model(Perceiver(), floats(7, D)),
    "mdn": Model(Mdn(), floats(4)),
    "no_grad": Model(Guarded(), floats(6)),
    "wrapped": Model(Wrapped(), lambda rows: (torch.randint(0, 255, (rows, 32, 32, 3), dtype=torch.uint8),)),
    "crf": Model(Crf(), floats(5, 6)),
    "quantised": Model(Quantised(), floats(8)),
}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return self.function(x, self.w)


class TrainingNorm(nn.Module):
    """Batch normalisation by the batch, without statistics of its own."""

    def forward(self, x):
        return F.batch_norm(x, None, None, training=True)


class AcrossRows(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention(4, 2)

    def forward(self, x):
        return self.attention(x.unsqueeze(0)).squeeze(0)


# Functions of rows of 4 floats that depend on the other rows.
COUPLED = {
    "softmax_rows": lambda x, w: x.softmax(0),
    "log_softmax_rows": lambda x, w: (x @ w).log_softmax(0),
    "centred_rows": lambda x, w: x - x.mean(0),
    "standardised": lambda x, w: (x - x.mean(0, keepdim=True)) / (x.std(0, keepdim=True) + 1e-5),
    "max_of_batch": lambda x, w: x / x.abs().max(),
    "norm_of_batch": lambda x, w: x / torch.linalg.vector_norm(x),
    "normalize_rows": lambda x, w: F.normalize(x, dim=0),
    "sorted_rows": lambda x, w: x.sort(0).values,
    "ranked_rows": lambda x, w: x.argsort(0).argsort(0),
    "cumsum_rows": lambda x, w: x.cumsum(0),
    "cummax_rows": lambda x, w: x.cummax(0).values,
    "flipped_rows": lambda x, w: x.flip(0),
    "flipped_both": lambda x, w: x.flip([0, 1]),
    "rolled_rows": lambda x, w: torch.roll(x, 1, 0),
    "rolled_flat": lambda x, w: torch.roll(x, 1),
    "gram": lambda x, w: (x @ x.t()).sum(1),
    "similarity": lambda x, w: (x @ x.t()).softmax(-1) @ x,
    "gram_einsum": lambda x, w: torch.einsum("id,jd->ij", x, x) @ x,
    "covariance": lambda x, w: x @ (x.t() @ x),
    "first_row": lambda x, w: x - x[0],
    "last_row": lambda x, w: x - x[-1:],
    "fft_rows": lambda x, w: torch.fft.fft(x, dim=0).real,
    "fft_both": lambda x, w: torch.fft.fft2(x).real,
    "positions": lambda x, w: x + torch.arange(x.shape[0], dtype=x.dtype).unsqueeze(1),
    "count": lambda x, w: x / x.shape[0],
    "topk_rows": lambda x, w: x - x.topk(1, dim=0).values,
    "shuffled": lambda x, w: x[torch.arange(x.shape[0] - 1, -1, -1)],
    "by_index": lambda x, w: x[x.argmax(0)].sum(0) + x,
    "conv_rows": lambda x, w: F.conv1d(x.t().unsqueeze(0), w.unsqueeze(-1).expand(4, 4, 3), padding=1).squeeze(0).t(),
    "pooled_rows": lambda x, w: F.avg_pool1d(x.t().unsqueeze(0), 3, 1, 1).squeeze(0).t(),
    "cdist_rows": lambda x, w: torch.cdist(x, x) @ x,
    "distances": lambda x, w: (x.unsqueeze(0) - x.unsqueeze(1)).abs().sum((1, 2)),
    "masked_rows": lambda x, w: torch.tril(torch.ones(x.shape[0], x.shape[0])) @ x,
    "triangle": lambda x, w: (x @ w).tril(),
    "flattened": lambda x, w: x.flatten().cumsum(0).view(-1, 4),
    "median_rows": lambda x, w: x - x.median(0).values,
    "threshold": lambda x, w: torch.where(x > x.mean(), x, 0),
    "scattered": lambda x, w: torch.zeros_like(x).scatter(0, x.argsort(0), x),
    "gathered_rows": lambda x, w: x.gather(0, x.argsort(0)),
    "counted": lambda x, w: x * (x > 0).sum(),
    "one_hot_rows": lambda x, w: F.one_hot(torch.arange(x.shape[0]) % 4, 4) + x,
    "selected": lambda x, w: x.index_select(0, torch.arange(x.shape[0]).flip(0)),
    "layer_norm_all": lambda x, w: (x - x.mean()) / x.var().sqrt(),
    "batch_norm": None,
    "attention_rows": None,
}


def coupled(name):
    special = {"batch_norm": TrainingNorm, "attention_rows": AcrossRows}
    return special[name]() if name in special else Function(COUPLED[name])


def main() -> None:
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(0)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    exported.HERE = folder
    only, kinds = set(sys.argv[2:]), {}
    nets = {name: ("independent", model) for name, model in NETS.items()}
    nets |= {name: ("coupled", Model(coupled(name), floats(4, 8) if name == "batch_norm" else floats(4))) for name in COUPLED}
    for name, (kind, model) in nets.items():
        if only and name not in only:
            continue
        try:
            exported.write(name, model)
            kinds[name] = kind
        except Exception as error:
            print(f"{name} cannot be exported: {str(error)[:1500]}")
    if not only:
        (folder / "kinds.json").write_text(json.dumps(kinds, indent=1))
    print(f"{len(kinds)} nets")


if __name__ == "__main__":
    main()
