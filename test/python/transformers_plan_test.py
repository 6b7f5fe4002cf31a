"""Plans of models of package transformers on PyTorch: losses under a plan beside plain PyTorch's.

    UNITY_PROGRAMS=build/release/bin python test/python/transformers_plan_test.py [MODEL...]

Runs 2 processes with gloo. Says "skipped" and exits with 77 where torch, onnx or transformers is absent.
"""

import argparse
import copy
import json
import os
import pathlib
import sys
import tempfile
import warnings

try:
    import onnx  # noqa: F401
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp
    import torch.nn.functional as F
    import transformers
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python"))
import unity_plan

RANKS = 2
STEPS = 5
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
LIMITS = {"vocab_size": 100, "max_position_embeddings": 64, "pad_token_id": 0, "use_cache": False}
GROUPS = {**SIZES, **LIMITS, "num_key_value_heads": 2, "head_dim": 16}
ENCODER = {**SIZES, **LIMITS, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
IMAGES = {**SIZES, "image_size": 32, "patch_size": 8, "num_labels": 10, "hidden_dropout_prob": 0.0,
          "attention_probs_dropout_prob": 0.0}
GPT2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 100, "use_cache": False,
        "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
OPT = {**SIZES, **LIMITS, "ffn_dim": 128, "word_embed_proj_dim": 64, "dropout": 0.0}
T5 = {"vocab_size": 100, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0,
      "use_cache": False}
DISTIL = {"vocab_size": 100, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "max_position_embeddings": 64,
          "dropout": 0.0, "attention_dropout": 0.0}
BLOOM = {"vocab_size": 100, "hidden_size": 64, "n_layer": 2, "n_head": 4, "use_cache": False}
MODERN = {**SIZES, **LIMITS, "attention_dropout": 0.0, "embedding_dropout": 0.0, "mlp_dropout": 0.0}

MODELS = {  # model, its configuration
    "albert": ("AlbertForMaskedLM", {**ENCODER, "embedding_size": 32}),
    "bert": ("BertForMaskedLM", ENCODER),
    "bloom": ("BloomForCausalLM", BLOOM),
    "deit": ("DeiTForImageClassification", IMAGES),
    "dinov2": ("Dinov2ForImageClassification", {**IMAGES, "mlp_ratio": 2}),
    "distilbert": ("DistilBertForMaskedLM", DISTIL),
    "electra": ("ElectraForMaskedLM", {**ENCODER, "embedding_size": 32}),
    "gemma2": ("Gemma2ForCausalLM", GROUPS),
    "gemma3": ("Gemma3ForCausalLM", GROUPS),
    "gpt_neox": ("GPTNeoXForCausalLM", {**SIZES, **LIMITS}),
    "gpt2": ("GPT2LMHeadModel", GPT2),
    "llama": ("LlamaForCausalLM", {**GROUPS, "tie_word_embeddings": True}),
    "mistral": ("MistralForCausalLM", GROUPS),
    "modernbert": ("ModernBertForMaskedLM", MODERN),
    "opt": ("OPTForCausalLM", OPT),
    "phi3": ("Phi3ForCausalLM", {**SIZES, **LIMITS}),
    "qwen3": ("Qwen3ForCausalLM", GROUPS),
    "stablelm": ("StableLmForCausalLM", {**SIZES, **LIMITS, "num_key_value_heads": 4}),
    "t5": ("T5ForConditionalGeneration", T5),
    "vit": ("ViTForImageClassification", IMAGES),
}


class OneResult(nn.Module):
    def __init__(self, name, configuration):
        super().__init__()
        kind = getattr(transformers, name)
        self.model = kind(kind.config_class(**configuration, attn_implementation="eager"))
        self.is_of_images = kind.main_input_name == "pixel_values"
        self.has_decoder = self.model.config.is_encoder_decoder

    def forward(self, x):
        more = {"decoder_input_ids": x} if self.has_decoder else {}
        return self.model(**{self.model.main_input_name: x}, **more, return_dict=False)[0]

    def batch(self):
        return torch.randn(8, 3, 32, 32) if self.is_of_images else torch.randint(0, 100, (8, 16))


def made(name):
    torch.manual_seed(7)
    module = OneResult(*MODELS[name])
    batch = module.batch()
    return module, batch, torch.randint(0, 10, (8,) if module.is_of_images else (8, 16))


def losses(module, batch, labels):
    steps = torch.optim.SGD(module.parameters(), lr=0.05)
    found = []
    for _ in range(STEPS):
        result = module(batch)
        wanted = unity_plan.batch_like(result, labels) if hasattr(result, "placements") else labels
        loss = F.cross_entropy(result.flatten(0, -2), wanted.flatten())
        found.append((loss.full_tensor() if hasattr(loss, "full_tensor") else loss).item())
        steps.zero_grad()
        loss.backward()
        steps.step()
    return found


def rank_main(rank, name, port, folder):
    torch.set_num_threads(1)  # makes this process's pool of threads, before several threads want it
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    module, batch, labels = made(name)
    plan = unity_plan.load(folder / "plan.json")
    found = losses(unity_plan.apply(plan, copy.deepcopy(module), "cpu"), batch, labels)
    if rank == 0:
        off = max(abs(a - b) for a, b in zip(found, losses(module, batch, labels), strict=True))
        divided = sum(any(p.is_shard() for p in w.placements) for w in plan.parameters.values())
        (folder / "result.json").write_text(json.dumps([off, divided, len(plan.parameters)]))
    dist.destroy_process_group()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("models", nargs="*", default=list(MODELS))
    chosen = options.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    failed = 0
    print(f"| model | divided parameters | largest difference of {STEPS} losses |\n|---|---:|---:|", flush=True)
    for number, name in enumerate(chosen.models):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            module, batch, _ = made(name)
            unity_plan.find(module, (batch,), machine=f"p100:1x{RANKS}", folder=folder)
            port = 29900 + os.getpid() % 300 + number
            mp.start_processes(rank_main, (name, port, folder), nprocs=RANKS, start_method="fork")
            off, divided, all_of_them = json.loads((folder / "result.json").read_text())
        failed += off > 1e-5
        print(f"| {name} | {divided} of {all_of_them} | {off:.1e} |", flush=True)
    print("failed" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
