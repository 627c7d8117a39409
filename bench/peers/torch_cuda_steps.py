"""The training steps of `transformer_bench cuda` in PyTorch, compiled, on the same card: milliseconds and peak memory.

The same sizes, bfloat16 by autocast, fused AdamW, gradients clipped to norm 1; dropout where our step has it. GPT-2's vocabulary is
rounded up to 50,304, which is in PyTorch's favour.
"""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, d, heads, p=0.0, causal=False):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.heads, self.p, self.causal = heads, p, causal

    def forward(self, x, memory=None):
        k, v = self.kv(x if memory is None else memory).chunk(2, -1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (self.q(x), k, v))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class PostNormLayer(nn.Module):
    """Of the original Transformer; with `cross`, a decoder's."""

    def __init__(self, d, heads, d_ff, p, cross):
        super().__init__()
        self.attention = Attention(d, heads, p, causal=cross)
        self.cross = Attention(d, heads, p) if cross else None
        self.up, self.down = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3 if cross else 2)])
        self.dropout = nn.Dropout(p)

    def forward(self, x, memory=None):
        x = self.norms[0](x + self.dropout(self.attention(x)))
        if self.cross is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, memory)))
        return self.norms[-1](x + self.dropout(self.down(self.dropout(F.relu(self.up(x))))))


class Translator(nn.Module):
    def __init__(self, vocabulary=37000, d=512, heads=8, d_ff=2048, layers=6, p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.encoder = nn.ModuleList([PostNormLayer(d, heads, d_ff, p, False) for _ in range(layers)])
        self.decoder = nn.ModuleList([PostNormLayer(d, heads, d_ff, p, True) for _ in range(layers)])
        self.dropout = nn.Dropout(p)
        angles = torch.arange(512)[:, None] * torch.exp(torch.arange(0, d, 2) * (-math.log(10000.0) / d))
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def embed(self, ids):
        return self.dropout(self.embedding(ids) * self.embedding.embedding_dim**0.5 + self.positions[: ids.shape[1]])

    def forward(self, source, target):
        x, y = self.embed(source), self.embed(target)
        for layer in self.encoder:
            x = layer(x)
        for layer in self.decoder:
            y = layer(y, x)
        return F.cross_entropy((y @ self.embedding.weight.t()).flatten(0, 1).float(), target.flatten(), label_smoothing=0.1)


class PreNormLayer(nn.Module):
    def __init__(self, d, heads, causal, approximate):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(d, heads, causal=causal), nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down, self.approximate = nn.Linear(d, 4 * d), nn.Linear(4 * d, d), approximate

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate=self.approximate))


class Gpt2(nn.Module):
    def __init__(self, vocabulary=50304, d=768, heads=12, layers=12, context=1024):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.layers = nn.ModuleList([PreNormLayer(d, heads, True, "tanh") for _ in range(layers)])
        self.norm = nn.LayerNorm(d)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy((self.norm(x) @ self.embedding.weight.t()).flatten(0, 1).float(), ids.flatten())


class Vit(nn.Module):
    def __init__(self, d=768, heads=12, layers=12):
        super().__init__()
        self.patches, self.head, self.norm = nn.Conv2d(3, d, 16, 16), nn.Linear(d, 1000), nn.LayerNorm(d)
        self.first, self.positions = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.randn(1, 197, d) * 0.02)
        self.layers = nn.ModuleList([PreNormLayer(d, heads, False, "none") for _ in range(layers)])

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]).float(), labels)


def measure(name, model, *inputs):
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = torch.compile(model)

    def step():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(*inputs)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    times = []
    for _ in range(3):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 20)
    print(f"{name:34} {sorted(times)[1]:8.2f} ms/step  {torch.cuda.max_memory_allocated() / 2**30:6.2f} GiB", flush=True)


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    print(f"PyTorch {torch.__version__}, compiled, {torch.cuda.get_device_name()}", flush=True)
    ids = lambda *shape: torch.randint(1, 36000, shape, device="cuda")  # noqa: E731
    measure("Transformer base, 512 x (48 + 48)", Translator(), ids(512, 48), ids(512, 48))
    measure("GPT-2 124M, 32 x 1,024", Gpt2(), ids(32, 1024))
    measure("ViT-B/16, 256 images", Vit(), torch.randn(256, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (256,), device="cuda"))
