#!/usr/bin/env python3
"""Settings that the other cases do not have: small random checkpoints with the logits a plain float64 model gives for them.

The models below are written from the definitions of the families (Hugging Face Transformers), without regard to speed, one
text at a time. Needs numpy.    usage: make_cases.py            writes a folder for each case beside this file"""
import json
import math
import os
import struct

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(7)
VOCABULARY, TEXTS, LENGTH = 23, 2, 9


def save(path, tensors):
    header, data = {}, b""
    for name, t in tensors.items():
        t = np.ascontiguousarray(t, np.int64 if np.issubdtype(np.asarray(t).dtype, np.integer) else np.float32)
        header[name] = {"dtype": "I64" if t.dtype == np.int64 else "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def draw(*shape):
    return random.normal(0.0, 0.2, shape).astype(np.float32)


class Weights(dict):
    """Tensors by name, made when they are first asked for, so that a model's code is also the list of its tensors."""

    def __call__(self, name, *shape, about=0.0):
        if name not in self:
            self[name] = draw(*shape) + np.float32(about)
        assert self[name].shape == shape, (name, self[name].shape, shape)
        return self[name].astype(np.float64)

    def linear(self, x, name, out, bias=True):
        y = x @ self(name + ".weight", out, x.shape[-1]).T
        return y + self(name + ".bias", out) if bias else y

    def conv1d(self, x, name, out):
        return x @ self(name + ".weight", x.shape[-1], out) + self(name + ".bias", out)

    def layer_norm(self, x, name, eps):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + eps) * self(name + ".weight", x.shape[-1], about=1.0) + self(name + ".bias", x.shape[-1])

    def rms_norm(self, x, name, eps):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * self(name + ".weight", x.shape[-1], about=1.0)


erf = np.vectorize(math.erf)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "gelu": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "gelu_new": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def heads_of(x, size):
    return x.reshape(len(x), -1, size).transpose(1, 0, 2)  # [heads, tokens, size]


def attend(q, k, v, scale, seen, bias=0.0):
    groups = len(q) // len(k)
    k, v = np.repeat(k, groups, 0), np.repeat(v, groups, 0)
    scores = np.where(seen, q @ k.transpose(0, 2, 1) * scale + bias, -np.inf)
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return (scores / scores.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(q.shape[1], -1)


def causal(n, window=0):
    i = np.arange(n)
    distance = i[:, None] - i[None]
    return (distance >= 0) & (distance < (window or n))


def rope_tables(config, size, n):
    r = config.get("rope_parameters") or {}
    kind, factor, longest = r.get("rope_type", "default"), r.get("factor"), config["max_position_embeddings"]
    base, scale = r.get("rope_theta", 10000.0), 1.0
    if kind == "dynamic":
        base *= (factor * max(n, longest) / longest - (factor - 1)) ** (size / (size - 2))
    f = base ** (-np.arange(0, size, 2) / size)
    original = r.get("original_max_position_embeddings", longest)
    if kind == "linear":
        f = f / factor
    if kind == "llama3":
        low, high = r["low_freq_factor"], r["high_freq_factor"]
        wave = 2 * np.pi / f
        smooth = (original / wave - low) / (high - low)
        between = (1 - smooth) * f / factor + smooth * f
        f = np.where(wave > original / low, f / factor, np.where(wave < original / high, f, between))
    if kind == "yarn":
        growth = lambda by: 0.1 * by * math.log(factor) + 1 if factor > 1 else 1.0
        scale = r.get("attention_factor") or (growth(r["mscale"]) / growth(r["mscale_all_dim"]) if "mscale" in r else growth(1))
        pair = lambda turns: size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))
        low, high = pair(r.get("beta_fast", 32)), pair(r.get("beta_slow", 1))
        if r.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, size - 1)
        divided = np.clip((np.arange(size // 2) - low) / (high - low if high != low else 0.001), 0, 1)
        f = f / factor * divided + f * (1 - divided)
    angles = np.arange(n)[:, None] * np.concatenate([f, f])
    return np.cos(angles) * scale, np.sin(angles) * scale


def turn(x, tables):
    half = x.shape[-1] // 2
    return x * tables[0] + np.concatenate([-x[..., half:], x[..., :half]], -1) * tables[1]


def llama(c, w, ids, qkv_bias=False, out_bias=False, ffn_bias=False, windows=None, prefix="model."):
    d, heads = c["hidden_size"], c["num_attention_heads"]
    size, kv = c.get("head_dim") or d // heads, c.get("num_key_value_heads") or heads
    act = ACTIVATIONS[c.get("hidden_act", "silu")]
    x = w(prefix + "embed_tokens.weight", VOCABULARY, d)[ids]
    tables = rope_tables(c, size, len(ids))
    for i in range(c["num_hidden_layers"]):
        p = f"{prefix}layers.{i}."
        h = w.rms_norm(x, p + "input_layernorm", c["rms_norm_eps"])
        q = heads_of(w.linear(h, p + "self_attn.q_proj", heads * size, qkv_bias), size)
        k = heads_of(w.linear(h, p + "self_attn.k_proj", kv * size, qkv_bias), size)
        v = heads_of(w.linear(h, p + "self_attn.v_proj", kv * size, qkv_bias), size)
        o = attend(turn(q, tables), turn(k, tables), v, size**-0.5, causal(len(ids), windows[i] if windows else 0))
        x = x + w.linear(o, p + "self_attn.o_proj", d, out_bias)
        h = w.rms_norm(x, p + "post_attention_layernorm", c["rms_norm_eps"])
        gate = act(w.linear(h, p + "mlp.gate_proj", c["intermediate_size"], ffn_bias))
        x = x + w.linear(gate * w.linear(h, p + "mlp.up_proj", c["intermediate_size"], ffn_bias), p + "mlp.down_proj", d, ffn_bias)
    return w.rms_norm(x, prefix + "norm", c["rms_norm_eps"])


def bfloat16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def falcon(c, w, ids):
    d, heads, eps = c["hidden_size"], c["num_attention_heads"], c["layer_norm_epsilon"]
    size, n, bias = d // heads, len(ids), c.get("bias", False)
    new, one_kv, parallel = c.get("new_decoder_architecture", False), c.get("multi_query", True), c.get("parallel_attn", True)
    two_norms = new and c.get("num_ln_in_parallel_attn", 2) == 2
    x = w("transformer.word_embeddings.weight", VOCABULARY, d)[ids]
    alibi = 0.0
    if c.get("alibi"):
        power = 2 ** int(math.log2(heads))
        slopes = [2.0 ** (-8 * (i + 1) / power) for i in range(power)] + [2.0 ** (-4 * (2 * i + 1) / power) for i in range(heads - power)]
        places = np.arange(n, dtype=np.float32)
        alibi = bfloat16(bfloat16(slopes)[:, None] * places)[:, None, :].astype(np.float64) / math.sqrt(size)
    tables = rope_tables(c, size, n)
    for i in range(c["num_hidden_layers"]):
        p = f"transformer.h.{i}."
        h = w.layer_norm(x, p + ("ln_attn" if two_norms else "input_layernorm"), eps)
        if new:  # the heads of a group, their key, their value
            kv = c["num_kv_heads"]
            t = w.linear(h, p + "self_attention.query_key_value", (heads + 2 * kv) * size, bias).reshape(n, kv, heads // kv + 2, size)
            q, k, v = t[:, :, :-2].reshape(n, heads, size), t[:, :, -2], t[:, :, -1]
        elif one_kv:
            t = w.linear(h, p + "self_attention.query_key_value", d + 2 * size, bias).reshape(n, heads + 2, size)
            q, k, v = t[:, :-2], t[:, -2:-1], t[:, -1:]
        else:
            t = w.linear(h, p + "self_attention.query_key_value", 3 * d, bias).reshape(n, heads, 3, size)
            q, k, v = t[:, :, 0], t[:, :, 1], t[:, :, 2]
        q, k, v = (z.transpose(1, 0, 2) for z in (q, k, v))
        if not c.get("alibi"):
            q, k = turn(q, tables), turn(k, tables)
        o = w.linear(attend(q, k, v, size**-0.5, causal(n), alibi), p + "self_attention.dense", d, bias)
        if not parallel:
            x = x + o
            h = w.layer_norm(x, p + "post_attention_layernorm", eps)
        elif two_norms:
            h = w.layer_norm(x, p + "ln_mlp", eps)
        wide = c.get("ffn_hidden_size") or 4 * d
        y = w.linear(ACTIVATIONS[c.get("activation", "gelu")](w.linear(h, p + "mlp.dense_h_to_4h", wide, bias)), p + "mlp.dense_4h_to_h", d, bias)
        x = x + y + (o if parallel else 0.0)
    return w.layer_norm(x, "transformer.ln_f", eps)


def gpt2(c, w, ids, types=None):
    d, heads = c["n_embd"], c["n_head"]
    eps, n, size = c["layer_norm_epsilon"], len(ids), d // heads
    table = w("transformer.wte.weight", VOCABULARY, d)
    x = table[ids] + w("transformer.wpe.weight", c["n_positions"], d)[:n]
    if types is not None:
        x = x + table[types]
    for i in range(c["n_layer"]):
        p = f"transformer.h.{i}."
        qkv = w.conv1d(w.layer_norm(x, p + "ln_1", eps), p + "attn.c_attn", 3 * d)
        q, k, v = (heads_of(z, size) for z in np.split(qkv, 3, -1))
        scale = (size**-0.5 if c.get("scale_attn_weights", True) else 1.0) / (i + 1 if c.get("scale_attn_by_inverse_layer_idx") else 1)
        x = x + w.conv1d(attend(q, k, v, scale, causal(n)), p + "attn.c_proj", d)
        h = ACTIVATIONS[c["activation_function"]](w.conv1d(w.layer_norm(x, p + "ln_2", eps), p + "mlp.c_fc", c.get("n_inner") or 4 * d))
        x = x + w.conv1d(h, p + "mlp.c_proj", d)
    return w.layer_norm(x, "transformer.ln_f", eps)


def bert(c, w, ids, prefix, positions=None, types=None):
    d, heads, eps, n = c["hidden_size"], c["num_attention_heads"], c["layer_norm_eps"], len(ids)
    e, size = prefix + "embeddings.", d // heads
    x = w(e + "word_embeddings.weight", VOCABULARY, d)[ids]
    x = x + w(e + "position_embeddings.weight", c["max_position_embeddings"], d)[np.arange(n) if positions is None else positions]
    x = x + w(e + "token_type_embeddings.weight", c["type_vocab_size"], d)[np.zeros(n, int) if types is None else types]
    x = w.layer_norm(x, e + "LayerNorm", eps)
    for i in range(c["num_hidden_layers"]):
        p = f"{prefix}encoder.layer.{i}."
        q, k, v = (heads_of(w.linear(x, p + "attention.self." + part, d), size) for part in ("query", "key", "value"))
        o = attend(q, k, v, size**-0.5, np.ones((n, n), bool))
        x = w.layer_norm(x + w.linear(o, p + "attention.output.dense", d), p + "attention.output.LayerNorm", eps)
        h = ACTIVATIONS[c["hidden_act"]](w.linear(x, p + "intermediate.dense", c["intermediate_size"]))
        x = w.layer_norm(x + w.linear(h, p + "output.dense", d), p + "output.LayerNorm", eps)
    return x


def distilbert(c, w, ids):
    d, heads, n = c["dim"], c["n_heads"], len(ids)
    e, size = "distilbert.embeddings.", d // heads
    x = w(e + "word_embeddings.weight", VOCABULARY, d)[ids] + w(e + "position_embeddings.weight", c["max_position_embeddings"], d)[:n]
    x = w.layer_norm(x, e + "LayerNorm", 1e-12)
    for i in range(c["n_layers"]):
        p = f"distilbert.transformer.layer.{i}."
        q, k, v = (heads_of(w.linear(x, p + f"attention.{part}_lin", d), size) for part in "qkv")
        o = attend(q, k, v, size**-0.5, np.ones((n, n), bool))
        x = w.layer_norm(x + w.linear(o, p + "attention.out_lin", d), p + "sa_layer_norm", 1e-12)
        h = ACTIVATIONS[c["activation"]](w.linear(x, p + "ffn.lin1", c["hidden_dim"]))
        x = w.layer_norm(x + w.linear(h, p + "ffn.lin2", d), p + "output_layer_norm", 1e-12)
    return x


def case(name, config, forward, inputs=None):
    """forward(weights, row of each input) gives the outputs of one text."""
    inputs = inputs or {"input_ids": random.integers(3, VOCABULARY, (TEXTS, LENGTH))}
    w = Weights()
    rows = [forward(w, *row) for row in zip(*inputs.values())]
    folder = os.path.join(HERE, name)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=2, sort_keys=True)
        file.write("\n")
    save(os.path.join(folder, "model.safetensors"), w)
    save(os.path.join(folder, "expected.safetensors"), {**inputs, **{key: np.stack([row[key] for row in rows]) for key in rows[0]}})


def llama_cases():
    base = dict(model_type="llama", vocab_size=VOCABULARY, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, max_position_embeddings=8, rms_norm_eps=1e-5)
    rope = lambda **values: dict(head_dim=8, rope_parameters=dict(rope_theta=500.0, **values))

    def head(c, **options):
        def forward(w, ids):
            h = llama(c, w, ids, **options)
            return {"logits": h @ w("model.embed_tokens.weight", VOCABULARY, 16).T if c.get("tie_word_embeddings") else w.linear(h, "lm_head", VOCABULARY, False)}
        return forward

    for name, change in {
        "head-dim": dict(head_dim=6), "one-kv-head": dict(num_key_value_heads=1), "no-kv-groups": dict(num_key_value_heads=None),
        "tied": dict(tie_word_embeddings=True), "gelu": dict(hidden_act="gelu"), "relu": dict(hidden_act="relu"), "one-layer": dict(num_hidden_layers=1),
        "linear": rope(rope_type="linear", factor=4.0), "dynamic": rope(rope_type="dynamic", factor=2.0),
        "llama3": rope(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64),
        "yarn": rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
        "yarn-all": rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=8.0, beta_slow=2.0, truncate=False, mscale=1.3, mscale_all_dim=0.7),
    }.items():
        c = {**base, **change}
        case("llama-" + name, c, head(c))
    c = {**base, "attention_bias": True, "mlp_bias": True}
    case("llama-bias", c, head(c, qkv_bias=True, out_bias=True, ffn_bias=True))
    # Older files: rope_theta and rope_scaling.
    c = {**base, **rope(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)}
    old = {**c, "rope_theta": 500.0, "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}}
    del old["rope_parameters"]
    case("llama-yarn-old", old, head(c))

    c = {**base, "architectures": ["LlamaForSequenceClassification"], "pad_token_id": 0, "id2label": {"0": "a", "1": "b", "2": "c"}}
    ids = random.integers(3, VOCABULARY, (TEXTS, LENGTH))
    ids[1, -3:] = 0
    case("llama-score", c, lambda w, row: {"logits": w.linear(llama(c, w, row), "score", 3, False)[np.flatnonzero(row)[-1]]}, {"input_ids": ids})
    tokens = {**base, "architectures": ["LlamaForTokenClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}
    case("llama-tokens", tokens, lambda w, row: {"logits": w.linear(llama(tokens, w, row), "score", 3)})
    whole = {**base, "architectures": ["LlamaModel"]}
    case("llama-base", whole, lambda w, row: {"last_hidden_state": llama(whole, w, row, prefix="")})

    mistral = {**base, "model_type": "mistral", "sliding_window": None}
    case("mistral-no-window", mistral, head(mistral))
    qwen = {**base, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 4}
    first = {**qwen, "max_window_layers": 1}
    case("qwen2-max-window-layers", first, head(first, qkv_bias=True, windows=[0, 4]))
    types = {**qwen, "layer_types": ["sliding_attention", "full_attention"]}
    case("qwen2-layer-types", types, head(types, qkv_bias=True, windows=[4, 0]))


def falcon_cases():
    base = dict(model_type="falcon", vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=6, layer_norm_epsilon=1e-5,
                max_position_embeddings=64)
    for name, change in {
        "bias": dict(bias=True, ffn_hidden_size=30), "groups": dict(new_decoder_architecture=True, num_kv_heads=2),
        "groups-bias": dict(new_decoder_architecture=True, num_kv_heads=3, bias=True),
        "groups-one-norm": dict(new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1),
        "sequential-alibi": dict(multi_query=False, parallel_attn=False, bias=True, alibi=True),
        "sequential-rotary": dict(multi_query=False, parallel_attn=False, bias=True), "parallel-alibi": dict(alibi=True),
    }.items():
        c = {**base, **change}
        case("falcon-" + name, c, lambda w, ids, c=c: {"logits": falcon(c, w, ids) @ w("transformer.word_embeddings.weight", VOCABULARY, 24).T})


def gpt2_cases():
    base = dict(model_type="gpt2", vocab_size=VOCABULARY, n_embd=16, n_head=4, n_layer=2, n_positions=16, layer_norm_epsilon=1e-5, activation_function="gelu_new")
    tied = lambda c: lambda w, *row: {"logits": gpt2(c, w, *row) @ w("transformer.wte.weight", VOCABULARY, 16).T}
    for name, change in {"inner": dict(n_inner=20, activation_function="relu"), "no-scale": dict(scale_attn_weights=False),
                         "scale-by-layer": dict(scale_attn_by_inverse_layer_idx=True)}.items():
        c = {**base, **change}
        case("gpt2-" + name, c, tied(c))
    ids = random.integers(3, VOCABULARY, (2, TEXTS, LENGTH))
    case("gpt2-types", base, tied(base), {"input_ids": ids[0], "token_type_ids": ids[1]})
    c = {**base, "tie_word_embeddings": False}
    case("gpt2-untied", c, lambda w, row: {"logits": w.linear(gpt2(c, w, row), "lm_head", VOCABULARY, False)})


def bert_cases():
    base = dict(model_type="bert", vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20,
                max_position_embeddings=16, type_vocab_size=3, layer_norm_eps=1e-6, hidden_act="gelu_new")
    d = 16
    untied = {**base, "architectures": ["BertForMaskedLM"], "tie_word_embeddings": False}

    def masked(w, ids, types):
        h = ACTIVATIONS["gelu_new"](w.linear(bert(untied, w, ids, "bert.", types=types), "cls.predictions.transform.dense", d))
        h = w.layer_norm(h, "cls.predictions.transform.LayerNorm", 1e-6)
        w("cls.predictions.bias", VOCABULARY)  # in the file, but not used
        return {"logits": w.linear(h, "cls.predictions.decoder", VOCABULARY)}

    inputs = {"input_ids": random.integers(3, VOCABULARY, (TEXTS, LENGTH)), "token_type_ids": random.integers(0, 3, (TEXTS, LENGTH))}
    case("bert-untied", untied, masked, inputs)
    tokens = {**base, "architectures": ["BertForTokenClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}
    case("bert-tokens", tokens, lambda w, ids: {"logits": w.linear(bert(tokens, w, ids, "bert."), "classifier", 3)})

    roberta = {**base, "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "pad_token_id": 1, "hidden_act": "relu"}
    ids = random.integers(3, VOCABULARY, (TEXTS, LENGTH))
    ids[0, 4] = 1  # padding among the tokens: it is not counted
    place = lambda row: np.cumsum(row != 1) * (row != 1) + 1

    def roberta_masked(w, row):
        h = ACTIVATIONS["gelu"](w.linear(bert(roberta, w, row, "roberta.", place(row)), "lm_head.dense", d))
        h = w.layer_norm(h, "lm_head.layer_norm", 1e-6)
        return {"logits": h @ w("roberta.embeddings.word_embeddings.weight", VOCABULARY, d).T + w("lm_head.bias", VOCABULARY)}

    case("roberta-masked", roberta, roberta_masked, {"input_ids": ids})
    whole = {**roberta, "architectures": ["RobertaModel"]}

    def roberta_base(w, row):
        h = bert(whole, w, row, "", place(row))
        return {"last_hidden_state": h, "pooler_output": np.tanh(w.linear(h[0], "pooler.dense", d))}

    case("roberta-base", whole, roberta_base, {"input_ids": ids})
    distil = dict(model_type="distilbert", architectures=["DistilBertForMaskedLM"], vocab_size=VOCABULARY, dim=d, hidden_dim=20, n_layers=2, n_heads=4,
                  max_position_embeddings=16, activation="relu")

    def distil_masked(w, row):
        h = w.layer_norm(ACTIVATIONS["relu"](w.linear(distilbert(distil, w, row), "vocab_transform", d)), "vocab_layer_norm", 1e-12)
        return {"logits": h @ w("distilbert.embeddings.word_embeddings.weight", VOCABULARY, d).T + w("vocab_projector.bias", VOCABULARY)}

    case("distilbert-masked", distil, distil_masked)


if __name__ == "__main__":
    llama_cases()
    falcon_cases()
    gpt2_cases()
    bert_cases()
