#!/usr/bin/env python3
"""Makes reference cases of model families with Hugging Face Transformers: random weights, inputs, and all that the reference
gives for them. usage: make_families.py FOLDER [name...]    (needs torch, transformers, safetensors)"""
import copy
import inspect
import os
import sys

import torch
import transformers as hf
from safetensors.torch import save_file

V = 120  # vocabulary


def text(batch, length, generator, low=3):
    return torch.randint(low, V, (batch, length), generator=generator)


def padded(batch, length, left, generator):
    mask = torch.ones(batch, length, dtype=torch.long)
    for i in range(1, batch):
        n = int(torch.randint(1, length // 2 + 1, (1,), generator=generator))
        if left:
            mask[i, :n] = 0
        else:
            mask[i, length - n:] = 0
    return mask


def numbered(prefix, tensors, out):
    for i, t in enumerate(tensors or ()):
        out[f"{prefix}.{i}"] = t


def outputs(result, out, prefix=""):
    for key in ("logits", "last_hidden_state", "pooler_output", "cls_logits", "distillation_logits", "prediction_outputs",
                "encoder_last_hidden_state"):
        if getattr(result, key, None) is not None:
            out[prefix + key] = getattr(result, key)
    for key in ("hidden_states", "attentions", "encoder_hidden_states", "encoder_attentions", "decoder_hidden_states",
                "decoder_attentions", "cross_attentions"):
        numbered(key, getattr(result, key, None), out)


def train(model, inputs, out):
    model.eval()
    loss = model(**inputs).loss
    out["loss"] = loss.reshape(1)
    loss.backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            out["grad." + name] = p.grad.clone()
    model.zero_grad()
    # Checkpoints name a tied weight once; so do the parameters.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.01)
    losses = []
    for step in range(4):
        loss = model(**inputs).loss
        losses.append(loss.item())
        if step == 3:
            break
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    out["adamw_losses"] = torch.tensor(losses)


def spread(model, seed):
    """Weights that matter: initialisation alone leaves biases at 0 and norms at 1."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            if not p.requires_grad:
                continue  # Marian's table of positions is computed and not saved
            if p.dim() > 1:
                p.add_(0.08 * torch.randn(p.shape, generator=g))
            else:
                p.add_(0.1 * torch.randn(p.shape, generator=g))


def case(folder, name, model, inputs, kind, seed):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    torch.manual_seed(seed)
    spread(model, seed)
    model.tie_weights()
    model.eval()
    model.save_pretrained(path)
    out = dict(inputs)
    writer = copy.deepcopy(model)  # scaled rotary positions remember the longest text they have seen
    forward = {k: v for k, v in inputs.items() if k not in ("labels", "future_values")}
    training = {k: v for k, v in inputs.items() if k != "decoder_input_ids"}
    if kind == "causal":
        mask = forward.pop("attention_mask")
        training.pop("attention_mask")
    with torch.no_grad():
        outputs(model(**forward, output_hidden_states=True, output_attentions=model.config._attn_implementation == "eager"), out)
    if kind == "causal":
        with torch.no_grad():
            position = (mask.cumsum(-1) - 1).clamp(min=0)
            extra = {} if name.startswith("falcon-alibi") else {"position_ids": position}
            out["masked.logits"] = model(**forward, attention_mask=mask, **extra).logits
            for key, more in (("greedy", {}), ("beam4", {"num_beams": 4})):
                out[key] = writer.generate(forward["input_ids"], attention_mask=torch.ones_like(mask), max_new_tokens=16, do_sample=False,
                                          pad_token_id=0, **more)
    elif kind == "seq2seq":
        with torch.no_grad():
            for key, more in (("greedy", {}), ("beam4", {"num_beams": 4}), ("beam4_lp06", {"num_beams": 4, "length_penalty": 0.6})):
                out[key] = writer.generate(inputs["input_ids"], attention_mask=inputs["attention_mask"], max_length=15, do_sample=False, **more)
    if "labels" in inputs or "future_values" in inputs:
        train(model, training, out)
    save_file({k: v.detach().contiguous().clone() for k, v in out.items()}, os.path.join(path, "expected.safetensors"))
    print(name, len(out), "tensors", flush=True)


def cases():
    g = torch.Generator().manual_seed(5)
    eager = {"attn_implementation": "eager"}

    def causal(cls, config, batch=2, length=9, attention="eager"):
        ids = text(batch, length, g)
        return cls._from_config(config, attn_implementation=attention), {"input_ids": ids, "attention_mask": padded(batch, length, True, g), "labels": ids.clone()}, "causal"

    def encoder(cls, config, labels=None, batch=3, length=7, types=2):
        inputs = {"input_ids": text(batch, length, g), "attention_mask": padded(batch, length, False, g)}
        if config.pad_token_id is not None:
            inputs["input_ids"] = torch.where(inputs["attention_mask"] > 0, inputs["input_ids"], config.pad_token_id)
        if types > 1:
            inputs["token_type_ids"] = torch.randint(0, types, (batch, length), generator=g)
        if labels == "tokens":
            y = torch.randint(0, config.num_labels, (batch, length), generator=g)
            inputs["labels"] = torch.where(inputs["attention_mask"] > 0, y, torch.full_like(y, -100))
        elif labels == "mlm":
            y = inputs["input_ids"].clone()
            y[torch.rand(y.shape, generator=g) < 0.5] = -100
            y[0, 0] = inputs["input_ids"][0, 0]
            inputs["labels"] = torch.where(inputs["attention_mask"] > 0, y, torch.full_like(y, -100))
        elif labels == "class":
            inputs["labels"] = torch.randint(0, config.num_labels, (batch,), generator=g)
        elif labels == "float":
            inputs["labels"] = torch.randn(batch, generator=g) if config.num_labels == 1 else torch.randn(batch, config.num_labels, generator=g)
        elif labels == "several":
            inputs["labels"] = torch.randint(0, 2, (batch, config.num_labels), generator=g).float()
        return cls._from_config(config, **eager), inputs, "encoder"

    def pair(cls, config, batch=2, source=8, target=6):
        labels = text(batch, target, g)
        model = cls._from_config(config, **eager)
        start = torch.full((batch, 1), config.decoder_start_token_id)
        return model, {"input_ids": text(batch, source, g), "attention_mask": padded(batch, source, False, g), "labels": labels,
                       "decoder_input_ids": torch.cat([start, labels[:, :-1]], 1)}, "seq2seq"

    def wrapped(cls, config, padded_labels=False):
        """The reference makes the decoder's input of the labels: mBART begins with the last one that is not padding."""
        model, inputs, kind = pair(cls, config)
        if padded_labels:
            inputs["labels"][1, -2:] = -100
        shift = sys.modules[cls.__module__].shift_tokens_right
        start = () if "start" not in str(inspect.signature(shift)) else (config.decoder_start_token_id,)
        inputs["decoder_input_ids"] = shift(inputs["labels"], config.pad_token_id, *start)
        return model, inputs, kind

    def left(cls, config):
        """Padding in front of a source: positions are counted from behind it."""
        model, inputs, kind = pair(cls, config)
        inputs["attention_mask"] = inputs["attention_mask"].flip(1)
        inputs["input_ids"] = torch.where(inputs["attention_mask"] > 0, inputs["input_ids"], config.pad_token_id)
        return model, inputs, kind

    def image(cls, config, labels=True, batch=2, size=None):
        size = size or config.image_size
        inputs = {"pixel_values": torch.randn(batch, config.num_channels, size, size, generator=g)}
        if labels:
            inputs["labels"] = torch.randint(0, config.num_labels, (batch,), generator=g)
        return cls._from_config(config, **eager), inputs, "image"

    def series(cls, config, batch=3):
        return cls._from_config(config, **eager), {"past_values": torch.randn(batch, config.context_length, config.num_input_channels, generator=g),
                             "future_values": torch.randn(batch, config.prediction_length, config.num_input_channels, generator=g)}, "series"

    ends = {"bos_token_id": 1, "eos_token_id": 2, "vocab_size": V}
    gpt2 = dict(n_embd=48, n_head=3, n_positions=40, n_layer=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **ends)
    yield "gpt2-relu", lambda: causal(hf.GPT2LMHeadModel, hf.GPT2Config(**{**gpt2, "n_layer": 1}, activation_function="relu", n_inner=70))
    yield "gpt2-untied", lambda: causal(hf.GPT2LMHeadModel, hf.GPT2Config(**gpt2, tie_word_embeddings=False, layer_norm_epsilon=1e-3))
    yield "gpt2-scaled", lambda: causal(hf.GPT2LMHeadModel, hf.GPT2Config(**gpt2, scale_attn_by_inverse_layer_idx=True))
    yield "gpt2-unscaled", lambda: causal(hf.GPT2LMHeadModel, hf.GPT2Config(**gpt2, scale_attn_weights=False))
    yield "gpt2-cls", lambda: encoder(hf.GPT2ForSequenceClassification, hf.GPT2Config(**gpt2, pad_token_id=0, num_labels=4), "class", types=1)
    yield "gpt2-tokens", lambda: encoder(hf.GPT2ForTokenClassification, hf.GPT2Config(**gpt2, pad_token_id=0, num_labels=4), "tokens", types=1)
    yield "gpt2-base", lambda: encoder(hf.GPT2Model, hf.GPT2Config(**gpt2), None, types=1)
    llama = dict(hidden_size=48, intermediate_size=88, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=64, **ends)
    yield "llama-bias", lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**llama, attention_bias=True, mlp_bias=True, tie_word_embeddings=True))
    yield "llama-wide", lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**llama, head_dim=12, hidden_act="gelu_pytorch_tanh", rms_norm_eps=1e-3))
    rope = {"rope_theta": 5000.0}
    yield "llama-linear", lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**llama, rope_parameters={**rope, "rope_type": "linear", "factor": 2.5}))
    yield "llama-dynamic", lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**{**llama, "max_position_embeddings": 8}, rope_parameters={**rope, "rope_type": "dynamic", "factor": 2.0}), length=13)
    yield "llama-llama3", lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**llama, rope_parameters={**rope, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16}))
    yield "llama-yarn", lambda: causal(hf.LlamaForCausalLM, hf.LlamaConfig(**llama, rope_parameters={**rope, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}))
    yield "llama-cls", lambda: encoder(hf.LlamaForSequenceClassification, hf.LlamaConfig(**llama, pad_token_id=0, num_labels=3), "class", types=1)
    yield "llama-tokens", lambda: encoder(hf.LlamaForTokenClassification, hf.LlamaConfig(**llama, pad_token_id=0, num_labels=3), "tokens", types=1)
    yield "llama-base", lambda: encoder(hf.LlamaModel, hf.LlamaConfig(**llama), None, types=1)
    yield "mistral-window", lambda: causal(hf.MistralForCausalLM, hf.MistralConfig(**llama, sliding_window=3), length=12)
    yield "mistral-full", lambda: causal(hf.MistralForCausalLM, hf.MistralConfig(**llama, sliding_window=None, head_dim=10))
    yield "qwen2-window", lambda: causal(hf.Qwen2ForCausalLM, hf.Qwen2Config(**llama, use_sliding_window=True, sliding_window=4, max_window_layers=1), length=12)
    yield "qwen2-tied", lambda: causal(hf.Qwen2ForCausalLM, hf.Qwen2Config(**llama, tie_word_embeddings=True))
    falcon = dict(hidden_size=48, num_attention_heads=6, num_hidden_layers=2, hidden_dropout=0.0, attention_dropout=0.0, **ends)
    yield "falcon-new", lambda: causal(hf.FalconForCausalLM, hf.FalconConfig(**falcon, new_decoder_architecture=True, num_kv_heads=2, bias=False))
    yield "falcon-new-one", lambda: causal(hf.FalconForCausalLM, hf.FalconConfig(**falcon, new_decoder_architecture=True, num_kv_heads=3, num_ln_in_parallel_attn=1))
    yield "falcon-old", lambda: causal(hf.FalconForCausalLM, hf.FalconConfig(**falcon, multi_query=False, parallel_attn=False, bias=True))
    yield "falcon-alibi", lambda: causal(hf.FalconForCausalLM, hf.FalconConfig(**falcon, alibi=True, bias=True, multi_query=False, parallel_attn=False), attention="sdpa")  # eager adds it twice
    yield "falcon-cls", lambda: encoder(hf.FalconForSequenceClassification, hf.FalconConfig(**falcon, pad_token_id=0, num_labels=3), "class", types=1)
    bert = dict(vocab_size=V, hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=100, max_position_embeddings=30,
                hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    yield "bert-tokens", lambda: encoder(hf.BertForTokenClassification, hf.BertConfig(**bert, num_labels=5), "tokens")
    yield "bert-mlm-relu", lambda: encoder(hf.BertForMaskedLM, hf.BertConfig(**bert, hidden_act="relu", tie_word_embeddings=False), "mlm")
    yield "bert-regression", lambda: encoder(hf.BertForSequenceClassification, hf.BertConfig(**bert, num_labels=1), "float")
    yield "bert-types", lambda: encoder(hf.BertForSequenceClassification, hf.BertConfig(**bert, type_vocab_size=3, hidden_act="gelu_new", layer_norm_eps=1e-5), "class", types=3)
    roberta = dict(bert, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
    yield "roberta-mlm", lambda: encoder(hf.RobertaForMaskedLM, hf.RobertaConfig(**roberta), "mlm", types=1)
    yield "roberta-base", lambda: encoder(hf.RobertaModel, hf.RobertaConfig(**roberta), None, types=1)
    yield "roberta-tokens", lambda: encoder(hf.RobertaForTokenClassification, hf.RobertaConfig(**roberta, num_labels=4), "tokens", types=1)
    distil = dict(vocab_size=V, dim=48, n_layers=2, n_heads=4, hidden_dim=90, max_position_embeddings=30, dropout=0, attention_dropout=0, seq_classif_dropout=0)
    yield "distilbert-mlm", lambda: encoder(hf.DistilBertForMaskedLM, hf.DistilBertConfig(**distil), "mlm", types=1)
    yield "distilbert-base", lambda: encoder(hf.DistilBertModel, hf.DistilBertConfig(**distil), None, types=1)
    yield "distilbert-sin", lambda: encoder(hf.DistilBertForTokenClassification, hf.DistilBertConfig(**distil, sinusoidal_pos_embds=True, activation="relu", num_labels=3), "tokens", types=1)
    # The heads of encoders: tags of words, several labels, one number and several. These are in variants/.
    tiny = dict(vocab_size=V, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, max_position_embeddings=16,
                hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    tiny_distil = dict(vocab_size=V, dim=12, n_layers=2, n_heads=3, hidden_dim=20, max_position_embeddings=16, dropout=0, attention_dropout=0,
                       seq_classif_dropout=0)
    for family, start, config, sizes, types in (("bert", "Bert", hf.BertConfig, tiny, 2),
                                                ("roberta", "Roberta", hf.RobertaConfig, dict(tiny, pad_token_id=1, bos_token_id=0, eos_token_id=2), 1),
                                                ("distilbert", "DistilBert", hf.DistilBertConfig, tiny_distil, 1)):
        for name, head, labels, more in (("tags", "ForTokenClassification", "tokens", dict(num_labels=5)),
                                         ("several", "ForSequenceClassification", "several", dict(num_labels=4, problem_type="multi_label_classification")),
                                         ("number", "ForSequenceClassification", "float", dict(num_labels=1, problem_type="regression")),
                                         ("numbers", "ForSequenceClassification", "float", dict(num_labels=3, problem_type="regression"))):
            yield f"{family}-{name}", lambda: encoder(getattr(hf, start + head), config(**sizes, **more), labels, types=types)
    t5 = dict(vocab_size=V, d_model=40, d_kv=12, d_ff=70, num_layers=2, num_decoder_layers=3, num_heads=3, relative_attention_num_buckets=10,
              relative_attention_max_distance=20, dropout_rate=0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    yield "t5-gated-silu", lambda: pair(hf.T5ForConditionalGeneration, hf.T5Config(**{**t5, "num_decoder_layers": 2}, feed_forward_proj="gated-silu", tie_word_embeddings=False))
    yield "t5-odd", lambda: pair(hf.T5ForConditionalGeneration, hf.T5Config(**{**t5, "num_decoder_layers": 1}, feed_forward_proj="gelu"), source=13, target=11)
    bart = dict(vocab_size=V, d_model=48, encoder_layers=3, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=6, encoder_ffn_dim=60,
                decoder_ffn_dim=84, max_position_embeddings=40, dropout=0, attention_dropout=0, activation_dropout=0, pad_token_id=1, bos_token_id=0,
                eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
    yield "bart-odd", lambda: pair(hf.BartForConditionalGeneration, hf.BartConfig(**bart, scale_embedding=True, activation_function="relu"))
    yield "bart-base", lambda: encoder(hf.BartModel, hf.BartConfig(**bart), None, types=1)
    marian = dict(bart, pad_token_id=119, decoder_start_token_id=119, eos_token_id=0, forced_eos_token_id=0, bos_token_id=None, activation_function="swish")
    yield "marian-plain", lambda: pair(hf.MarianMTModel, hf.MarianConfig(**marian, scale_embedding=False))
    yield "marian-two", lambda: pair(hf.MarianMTModel, hf.MarianConfig(**{**marian, "activation_function": "relu"}, scale_embedding=True, share_encoder_decoder_embeddings=False, tie_word_embeddings=False, decoder_vocab_size=V))
    bart = dict(bart, d_model=24, encoder_layers=2, decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=28)  # small: kept in variants/
    pegasus = dict(bart, pad_token_id=0, decoder_start_token_id=0, eos_token_id=1, forced_eos_token_id=1)
    yield "pegasus-plain", lambda: pair(hf.PegasusForConditionalGeneration, hf.PegasusConfig(**pegasus, scale_embedding=True))
    yield "pegasus-swish", lambda: pair(hf.PegasusForConditionalGeneration, hf.PegasusConfig(**pegasus, activation_function="swish"))
    yield "mbart-scaled", lambda: wrapped(hf.MBartForConditionalGeneration, hf.MBartConfig(**bart, scale_embedding=True, activation_function="relu"))
    yield "mbart-padded", lambda: wrapped(hf.MBartForConditionalGeneration, hf.MBartConfig(**bart), padded_labels=True)
    yield "mbart-base", lambda: encoder(hf.MBartModel, hf.MBartConfig(**bart), None, types=1)
    m2m = dict(bart, encoder_layerdrop=0.0, decoder_layerdrop=0.0)
    yield "m2m_100-plain", lambda: pair(hf.M2M100ForConditionalGeneration, hf.M2M100Config(**m2m, scale_embedding=False))
    yield "m2m_100-swish", lambda: wrapped(hf.M2M100ForConditionalGeneration, hf.M2M100Config(**{**m2m, "d_model": 20, "forced_bos_token_id": 17}, activation_function="swish"), padded_labels=True)
    yield "m2m_100-left", lambda: left(hf.M2M100ForConditionalGeneration, hf.M2M100Config(**m2m))
    vit = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=80, image_size=24, patch_size=6, hidden_dropout_prob=0,
               attention_probs_dropout_prob=0)
    yield "vit-grey", lambda: image(hf.ViTForImageClassification, hf.ViTConfig(**vit, num_channels=1, num_labels=7, qkv_bias=False))
    yield "vit-base", lambda: image(hf.ViTModel, hf.ViTConfig(**vit, layer_norm_eps=1e-5), False)
    yield "deit-plain", lambda: image(hf.DeiTForImageClassification, hf.DeiTConfig(**vit, num_labels=7))
    yield "deit-base", lambda: image(hf.DeiTModel, hf.DeiTConfig(**vit), False)
    swin = dict(embed_dim=12, image_size=32, patch_size=2, hidden_dropout_prob=0, attention_probs_dropout_prob=0, drop_path_rate=0)
    yield "swin-three", lambda: image(hf.SwinForImageClassification, hf.SwinConfig(**swin, depths=[2, 1, 2], num_heads=[2, 3, 4], window_size=4, mlp_ratio=3.0, num_labels=4))
    yield "swin-padded", lambda: image(hf.SwinForImageClassification, hf.SwinConfig(**{**swin, "image_size": 30}, depths=[2, 2], num_heads=[3, 6], window_size=7, num_labels=4, use_absolute_embeddings=True, qkv_bias=False))
    yield "swin-base", lambda: image(hf.SwinModel, hf.SwinConfig(**swin, depths=[1, 2], num_heads=[1, 2], window_size=5), False)
    tst = dict(num_input_channels=3, context_length=26, prediction_length=7, patch_length=5, patch_stride=4, d_model=24, num_attention_heads=3,
               num_hidden_layers=2, ffn_dim=40, attention_dropout=0, positional_dropout=0, path_dropout=0, ff_dropout=0, head_dropout=0, loss="mse")
    yield "patchtst-layer", lambda: series(hf.PatchTSTForPrediction, hf.PatchTSTConfig(**tst, norm_type="layernorm", pre_norm=False, positional_encoding_type="random", scaling="mean"))
    yield "patchtst-cls", lambda: series(hf.PatchTSTForPrediction, hf.PatchTSTConfig(**tst, use_cls_token=True, norm_type="batchnorm", scaling=None))
    yield "patchtst-apart", lambda: series(hf.PatchTSTForPrediction, hf.PatchTSTConfig(**tst, share_embedding=False, bias=False, activation_function="relu", scaling="std"))
    # Not tied: a table for each side and an output of its own; what the file calls shared is nobody's. The first two are in variants/.
    marian = dict(bart, pad_token_id=119, decoder_start_token_id=119, eos_token_id=0, forced_eos_token_id=0, bos_token_id=None)
    yield "mbart-untied", lambda: wrapped(hf.MBartForConditionalGeneration, hf.MBartConfig(**bart, tie_word_embeddings=False))
    yield "marian-untied", lambda: pair(hf.MarianMTModel, hf.MarianConfig(**marian, activation_function="swish", tie_word_embeddings=False))
    yield "bart-untied", lambda: pair(hf.BartForConditionalGeneration, hf.BartConfig(**bart, tie_word_embeddings=False))
    yield "pegasus-untied", lambda: pair(hf.PegasusForConditionalGeneration, hf.PegasusConfig(**pegasus, tie_word_embeddings=False))
    yield "m2m_100-untied", lambda: pair(hf.M2M100ForConditionalGeneration, hf.M2M100Config(**m2m, tie_word_embeddings=False))


if __name__ == "__main__":
    torch.manual_seed(1)
    torch.set_num_threads(1)
    folder, only = sys.argv[1], sys.argv[2:]
    for seed, (name, make) in enumerate(cases()):
        if only and name not in only:
            continue
        torch.manual_seed(100 + seed)
        try:
            case(folder, name, *make(), seed)
        except Exception as e:  # the reference itself may refuse
            print(name, "FAILED:", type(e).__name__, str(e)[:300], flush=True)
