#!/usr/bin/env python3
"""Adapters of PEFT on the models of the folders beside this one, with what PEFT computes for them.

    python3 make_cases.py

Each folder has what save_pretrained writes (adapter_config.json, adapter_model.safetensors) and expected.safetensors: the
inputs, logits, loss, and the gradient of every tensor of the adapter as grad.NAME. Weights are random, B among them.
"""

import json
import pathlib

import peft
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent

# name: base folder, class, settings of LoraConfig
CASES = {
    "gpt2": ("gpt2", "GPT2LMHeadModel", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, task_type="CAUSAL_LM")),
    "llama": ("llama", "LlamaForCausalLM", dict(r=3, lora_alpha=6, use_rslora=True, rank_pattern={"down_proj": 5},
                                                target_modules=["q_proj", "v_proj", "gate_proj", "down_proj"], task_type="CAUSAL_LM")),
    "falcon": ("falcon", "FalconForCausalLM", dict(r=2, target_modules=["query_key_value", "dense_4h_to_h"], task_type="CAUSAL_LM")),
    "bert-cls": ("bert-cls", "BertForSequenceClassification", dict(r=4, lora_alpha=2, target_modules=["query", "value"], task_type="SEQ_CLS")),
    # The base has no such head, and the adapter brings it along.
    "bert-new-head": ("bert-base", "BertForSequenceClassification", dict(r=2, target_modules="all-linear", task_type="SEQ_CLS")),
    "distilbert-cls": ("distilbert-cls", "DistilBertForSequenceClassification", dict(r=2, target_modules=["q_lin", "lin2"], task_type="SEQ_CLS")),
    "t5": ("t5", "T5ForConditionalGeneration", dict(r=4, lora_alpha=4, target_modules=["q", "v", "wo"], task_type="SEQ_2_SEQ_LM")),
    "bart": ("bart", "BartForConditionalGeneration", dict(r=4, target_modules=r".*decoder.*\.(k_proj|out_proj|fc1)", task_type="SEQ_2_SEQ_LM")),
    "vit": ("vit", "ViTForImageClassification", dict(r=2, target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"])),
    "swin": ("swin", "SwinForImageClassification", dict(r=2, target_modules=["q_proj", "v_proj"], modules_to_save=["classifier"])),
}
INPUTS = ["input_ids", "attention_mask", "token_type_ids", "decoder_input_ids", "pixel_values", "labels"]


def make(name, base, architecture, settings):
    torch.manual_seed(7)
    folder, source = HERE / name, HERE.parent / base
    model = getattr(transformers, architecture).from_pretrained(source, attn_implementation="eager").float()
    model = peft.get_peft_model(model, peft.LoraConfig(**settings))
    for key, p in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(p, std=0.1)
    model.eval()
    with safe_open(source / "expected.safetensors", "pt") as f:
        inputs = {k: f.get_tensor(k) for k in INPUTS if k in f.keys()}
    decoder = settings.get("task_type") == "CAUSAL_LM"
    if decoder:
        inputs.pop("attention_mask", None)
    if name == "bert-new-head":
        inputs["labels"] = torch.tensor([i % 2 for i in range(inputs["input_ids"].shape[0])])
    if "labels" in inputs:
        inputs.pop("decoder_input_ids", None)
    out = model(**inputs)
    out.loss.backward()
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = f"../../{base}"
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    tensors = dict(inputs, logits=out.logits.detach(), loss=out.loss.detach().reshape(1))
    gradients = {}
    for key, p in model.named_parameters():
        if p.requires_grad:
            gradients[key.replace(".modules_to_save.default", "").replace(".default", "")] = p.grad
    saved = load_file(folder / "adapter_model.safetensors")
    assert sorted(gradients) == sorted(saved), (sorted(gradients), sorted(saved))
    tensors |= {"grad." + k: v for k, v in gradients.items()}
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / "expected.safetensors")
    print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB", sorted(saved)[:2])


for name, case in CASES.items():
    make(name, *case)
