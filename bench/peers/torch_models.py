"""The families of `transformer_bench task` as PyTorch modules: GPT-2, BERT, ViT and PatchTST.

Written the fast way: one product for Q, K and V, scaled_dot_product_attention, no mask where nothing is padded, the output
projection for labelled tokens only, patches cut by a view and projected by one product, batch norm over rows without a transpose.
Every module takes its sizes from the config.json of a folder and its weights from the model.safetensors beside it; prepare() makes
the arguments of forward() from a batch, before any clock starts; forward() gives the loss.
"""

import json
import re
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file

GELU = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}


def dropout(x, p: float, training: bool):
    return F.dropout(x, p, training) if p > 0.0 and training else x


class Attention(nn.Module):
    def __init__(self, d: int, heads: int, p: float, causal: bool):
        super().__init__()
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.heads, self.p, self.causal = heads, p, causal

    def forward(self, x, mask):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        mask = None if mask is None else mask.to(q.dtype)
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d: int, d_ff: int, p: float, activation: str):
        super().__init__()
        self.up, self.down = nn.Linear(d, d_ff), nn.Linear(d_ff, d)
        self.p, self.gelu = p, GELU.get(activation)

    def forward(self, x):
        x = self.up(x)
        x = F.relu(x, inplace=True) if self.gelu is None else F.gelu(x, approximate=self.gelu)
        return self.down(dropout(x, self.p, self.training))


class RowNorm(nn.BatchNorm1d):
    """Batch norm of every feature over all rows of [samples, tokens, d]."""

    def forward(self, x):
        return super().forward(x.flatten(0, 1)).view(x.shape)


class Layer(nn.Module):
    def __init__(self, d, heads, d_ff, *, activation, eps, pre, p=0.0, attention_p=0.0, ff_p=0.0, path_p=0.0, causal=False,
                 batch_norm=False):  # fmt: skip
        super().__init__()
        norm = RowNorm if batch_norm else nn.LayerNorm
        self.attention, self.ff = Attention(d, heads, attention_p, causal), FeedForward(d, d_ff, ff_p, activation)
        self.norm1, self.norm2 = norm(d, eps=eps), norm(d, eps=eps)
        self.pre, self.p, self.path_p = pre, p, path_p

    def dropped(self, x):
        """Dropout, and stochastic depth: some samples go without the sublayer."""
        x = dropout(x, self.p, self.training)
        if self.path_p > 0.0 and self.training:
            x = x * F.dropout(x.new_ones(len(x), 1, 1), self.path_p)
        return x

    def forward(self, x, mask=None):
        if self.pre:
            x = x + self.dropped(self.attention(self.norm1(x), mask))
            return x + self.dropped(self.ff(self.norm2(x)))
        x = self.norm1(x + self.dropped(self.attention(x, mask)))
        return self.norm2(x + self.dropped(self.ff(x)))


class Family(nn.Module):
    """names: our modules → those of the checkpoint, several where they are one of ours; {i} is the number of the layer."""

    names: dict = {}
    transposed = ()  # modules whose matrices the checkpoint has the other way round
    dynamic = False  # do shapes change from batch to batch?

    def load(self, folder: Path):
        stored = load_file(folder / "model.safetensors")
        with torch.no_grad():
            for name, tensor in self.state_dict().items():
                if name.endswith("num_batches_tracked"):
                    continue
                layer = re.search(r"layers\.(\d+)\.", name)
                key = re.sub(r"layers\.\d+\.", "layers.{i}.", name)
                module, _, leaf = key.rpartition(".")
                theirs = self.names.get(key) or [f"{n}.{leaf}" for n in self.names[module]]
                value = torch.cat([stored[n.format(i=layer and layer.group(1))] for n in theirs])
                tensor.copy_((value.T if leaf == "weight" and module in self.transposed else value).reshape(tensor.shape))
        return self


class Gpt2(Family):
    transposed = ("layers.{i}.attention.qkv", "layers.{i}.attention.out", "layers.{i}.ff.up", "layers.{i}.ff.down")
    names = {
        "tokens": ["transformer.wte"], "positions": ["transformer.wpe"], "norm": ["transformer.ln_f"],
        "layers.{i}.norm1": ["transformer.h.{i}.ln_1"], "layers.{i}.norm2": ["transformer.h.{i}.ln_2"],
        "layers.{i}.attention.qkv": ["transformer.h.{i}.attn.c_attn"], "layers.{i}.attention.out": ["transformer.h.{i}.attn.c_proj"],
        "layers.{i}.ff.up": ["transformer.h.{i}.mlp.c_fc"], "layers.{i}.ff.down": ["transformer.h.{i}.mlp.c_proj"],
    }  # fmt: skip

    def __init__(self, c):
        super().__init__()
        d = c["n_embd"]
        self.tokens, self.positions, self.norm = nn.Embedding(c["vocab_size"], d), nn.Embedding(c["n_positions"], d), nn.LayerNorm(d)
        self.layers = nn.ModuleList(
            Layer(d, c["n_head"], c.get("n_inner") or 4 * d, activation=c.get("activation_function", "gelu_new"),
                  eps=c.get("layer_norm_epsilon", 1e-5), pre=True, p=c.get("resid_pdrop", 0.1), attention_p=c.get("attn_pdrop", 0.1),
                  causal=True)
            for _ in range(c["n_layer"]))  # fmt: skip
        self.p = c.get("embd_pdrop", 0.1)

    def prepare(self, batch):
        return batch["input_ids"], batch["targets"]  # [texts, tokens]; [texts · tokens]: what follows each of them

    def forward(self, ids, targets):
        x = dropout(self.tokens(ids) + self.positions.weight[: ids.shape[1]], self.p, self.training)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(F.linear(self.norm(x).flatten(0, 1), self.tokens.weight), targets)


class Bert(Family):
    """With the head of a masked language model, or of classes of whole texts."""

    dynamic = True
    names = {
        "tokens": ["bert.embeddings.word_embeddings"], "positions": ["bert.embeddings.position_embeddings"],
        "types": ["bert.embeddings.token_type_embeddings"], "norm": ["bert.embeddings.LayerNorm"],
        "layers.{i}.attention.qkv": [f"bert.encoder.layer.{{i}}.attention.self.{part}" for part in ("query", "key", "value")],
        "layers.{i}.attention.out": ["bert.encoder.layer.{i}.attention.output.dense"],
        "layers.{i}.norm1": ["bert.encoder.layer.{i}.attention.output.LayerNorm"],
        "layers.{i}.ff.up": ["bert.encoder.layer.{i}.intermediate.dense"], "layers.{i}.ff.down": ["bert.encoder.layer.{i}.output.dense"],
        "layers.{i}.norm2": ["bert.encoder.layer.{i}.output.LayerNorm"],
        "transform": ["cls.predictions.transform.dense"], "transform_norm": ["cls.predictions.transform.LayerNorm"],
        "bias": ["cls.predictions.bias"], "pooler": ["bert.pooler.dense"], "classifier": ["classifier"],
    }  # fmt: skip

    def __init__(self, c):
        super().__init__()
        d, eps, self.p = c["hidden_size"], c.get("layer_norm_eps", 1e-12), c.get("hidden_dropout_prob", 0.1)
        self.masked, self.gelu = c["architectures"] == ["BertForMaskedLM"], GELU[c.get("hidden_act", "gelu")]
        self.tokens = nn.Embedding(c["vocab_size"], d, padding_idx=c.get("pad_token_id", 0))
        self.positions, self.types = nn.Embedding(c["max_position_embeddings"], d), nn.Embedding(c.get("type_vocab_size", 2), d)
        self.norm = nn.LayerNorm(d, eps=eps)
        self.layers = nn.ModuleList(
            Layer(d, c["num_attention_heads"], c["intermediate_size"], activation=c.get("hidden_act", "gelu"), eps=eps, pre=False,
                  p=self.p, attention_p=c.get("attention_probs_dropout_prob", 0.1))
            for _ in range(c["num_hidden_layers"]))  # fmt: skip
        if self.masked:
            self.transform, self.transform_norm = nn.Linear(d, d), nn.LayerNorm(d, eps=eps)
            self.bias = nn.Parameter(torch.zeros(c["vocab_size"]))
        else:
            self.pooler, self.classifier = nn.Linear(d, d), nn.Linear(d, len(c.get("id2label") or range(c.get("num_labels", 2))))

    def prepare(self, batch):
        """ids padded; mask [texts, 1, 1, tokens]: 0 or -inf; rows: the labelled tokens, as indices into all; labels: theirs."""
        ids, real, labels = batch["input_ids"], batch.get("attention_mask"), batch["labels"]
        mask = None
        if real is not None and bool((real == 0).any()):
            mask = torch.zeros(real.shape).masked_fill(real == 0, -torch.inf)[:, None, None]
        if not self.masked:
            return ids, mask, None, labels
        rows = (labels.flatten() != -100).nonzero().squeeze(1)
        return ids, mask, rows, labels.flatten()[rows]

    def forward(self, ids, mask, rows, labels):
        x = self.tokens(ids) + (self.positions.weight[: ids.shape[1]] + self.types.weight[0])
        x = dropout(self.norm(x), self.p, self.training)
        for layer in self.layers:
            x = layer(x, mask)
        if not self.masked:
            pooled = dropout(torch.tanh(self.pooler(x[:, 0])), self.p, self.training)
            return F.cross_entropy(self.classifier(pooled), labels)
        x = self.transform_norm(F.gelu(self.transform(x.flatten(0, 1).index_select(0, rows)), approximate=self.gelu))
        return F.cross_entropy(F.linear(x, self.tokens.weight, self.bias), labels)


class Vit(Family):
    names = {
        "cls": ["vit.embeddings.cls_token"], "positions": ["vit.embeddings.position_embeddings"],
        "patches": ["vit.embeddings.patch_embeddings.projection"], "norm": ["vit.layernorm"], "classifier": ["classifier"],
        "layers.{i}.attention.qkv": [f"vit.encoder.layer.{{i}}.attention.attention.{part}" for part in ("query", "key", "value")],
        "layers.{i}.attention.out": ["vit.encoder.layer.{i}.attention.output.dense"],
        "layers.{i}.norm1": ["vit.encoder.layer.{i}.layernorm_before"], "layers.{i}.norm2": ["vit.encoder.layer.{i}.layernorm_after"],
        "layers.{i}.ff.up": ["vit.encoder.layer.{i}.intermediate.dense"], "layers.{i}.ff.down": ["vit.encoder.layer.{i}.output.dense"],
    }  # fmt: skip

    def __init__(self, c):
        super().__init__()
        d, self.patch, eps, self.p = c["hidden_size"], c["patch_size"], c.get("layer_norm_eps", 1e-12), c.get("hidden_dropout_prob", 0.0)
        tokens = (c["image_size"] // self.patch) ** 2 + 1
        self.patches = nn.Linear(c["num_channels"] * self.patch**2, d)
        self.cls, self.positions = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.zeros(1, tokens, d))
        self.layers = nn.ModuleList(
            Layer(d, c["num_attention_heads"], c["intermediate_size"], activation=c.get("hidden_act", "gelu"), eps=eps, pre=True,
                  p=self.p, attention_p=c.get("attention_probs_dropout_prob", 0.0),
                  path_p=c.get("drop_path_rate", 0.0) * i / max(1, c["num_hidden_layers"] - 1))
            for i in range(c["num_hidden_layers"]))  # fmt: skip
        self.norm, self.classifier = nn.LayerNorm(d, eps=eps), nn.Linear(d, len(c["id2label"]))

    def prepare(self, batch):
        return batch["pixel_values"], batch["labels"], float(batch.get("label_smoothing", 0.0))

    def forward(self, images, labels, smoothing: float):
        p = self.patch
        x = images.unflatten(3, (-1, p)).unflatten(2, (-1, p)).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        x = torch.cat((self.cls.expand(len(x), -1, -1), self.patches(x)), 1) + self.positions
        x = dropout(x, self.p, self.training)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.classifier(self.norm(x[:, 0])), labels, label_smoothing=smoothing)


class PatchTst(Family):
    names = {
        "embedding": ["model.encoder.embedder.input_embedding"], "positions": ["model.encoder.positional_encoder.position_enc"],
        "layers.{i}.attention.qkv": [f"model.encoder.layers.{{i}}.self_attn.{part}_proj" for part in "qkv"],
        "layers.{i}.attention.out": ["model.encoder.layers.{i}.self_attn.out_proj"],
        "layers.{i}.ff.up": ["model.encoder.layers.{i}.ff.0"], "layers.{i}.ff.down": ["model.encoder.layers.{i}.ff.3"],
        "head": ["head.projection"],
    }  # fmt: skip

    def __init__(self, c):
        super().__init__()
        d, self.patch, self.stride = c["d_model"], c["patch_length"], c["patch_stride"]
        count = (c["context_length"] - self.patch) // self.stride + 1
        self.first = c["context_length"] - (self.patch + self.stride * (count - 1))  # what fills no patch is left out
        batch_norm, self.pooled = c.get("norm_type", "batchnorm") == "batchnorm", c.get("pooling_type", "mean") == "mean"
        self.names = dict(self.names)
        for ours, theirs in (("norm1", "norm_sublayer1"), ("norm2", "norm_sublayer3")):
            self.names["layers.{i}." + ours] = [f"model.encoder.layers.{{i}}.{theirs}" + (".batchnorm" if batch_norm else "")]
        self.embedding = nn.Linear(self.patch, d)
        trained = c.get("positional_encoding_type", "sincos") != "sincos"
        self.positions = nn.Parameter(torch.zeros(count, d), requires_grad=trained)
        self.layers = nn.ModuleList(
            Layer(d, c["num_attention_heads"], c["ffn_dim"], activation=c.get("activation_function", "gelu"), eps=c.get("norm_eps", 1e-5),
                  pre=c.get("pre_norm", True), p=c.get("path_dropout", 0.0), attention_p=c.get("attention_dropout", 0.0),
                  ff_p=c.get("ff_dropout", 0.0), batch_norm=batch_norm)
            for _ in range(c["num_hidden_layers"]))  # fmt: skip
        self.head = nn.Linear(d if self.pooled else d * count, c["prediction_length"])
        self.p, self.head_p = c.get("positional_dropout", 0.0), c.get("head_dropout", 0.0)

    def prepare(self, batch):
        return batch["past_values"].transpose(1, 2).contiguous(), batch["future_values"].transpose(1, 2).contiguous()

    def forward(self, past, future):
        """[samples, channels, values]; every channel is a series of its own."""
        variance, location = torch.var_mean(past, -1, correction=0, keepdim=True)
        scale = torch.sqrt(variance + 1e-5)
        x = ((past - location) / scale)[..., self.first :].unfold(-1, self.patch, self.stride)
        x = dropout(self.embedding(x.flatten(0, 1)) + self.positions, self.p, self.training)
        for layer in self.layers:
            x = layer(x)
        x = dropout(x.mean(1) if self.pooled else x.flatten(1), self.head_p, self.training)
        return F.mse_loss(self.head(x).float().view(future.shape) * scale + location, future)


FAMILIES = {"gpt2": Gpt2, "bert": Bert, "vit": Vit, "patchtst": PatchTst}


def open_model(folder: str, without_dropout: bool) -> Family:
    config = json.loads((Path(folder) / "config.json").read_text())
    if without_dropout:
        config.update({key: 0.0 for key in config if re.search("drop", key) and isinstance(config[key], float)})
    return FAMILIES[config["model_type"]](config).load(Path(folder)).train()
