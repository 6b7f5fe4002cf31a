#!/usr/bin/env python3
"""Exports models by PyTorch itself, with random weights: those that real files come from.

    export_models.py FOLDER [NAME...] [--exporter script|dynamo] [--attention eager|sdpa] [--batch N]

Writes FOLDER/NAME_EXPORTER.onnx for each NAME, by both exporters where none is named; without names all that the
installed packages have. bert, distilbert, gpt2 and t5 are of two layers of width 64 with an attention mask (package
transformers), the others have their full size (torchvision). What an exporter refuses is said, and the others go on.
Needs `pip install torch onnx onnxscript`, and transformers or torchvision. Exit codes: 0; 1 where nothing was written
or for bad input (one line on standard error); 2 for bad usage.
"""

import argparse
import os
import sys
import warnings

VOCABULARY, POSITIONS, WIDTH, HEADS, SEQUENCE = 100, 32, 64, 4, 16
VISION = ["densenet121", "efficientnet_b0", "googlenet", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_small",
          "regnet_y_400mf", "resnet18", "resnet50", "shufflenet_v2_x1_0", "squeezenet1_1", "swin_t", "vgg11_bn",
          "vit_b_16"]


def language_models(attention):
    """By name: the model, and the names of its inputs."""
    try:
        import transformers as t
    except ImportError:
        return {}
    common = {"vocab_size": VOCABULARY, "attn_implementation": attention}
    masked = ["input_ids", "attention_mask"]
    return {
        "bert": (lambda: t.BertModel(t.BertConfig(
            hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=HEADS, intermediate_size=2 * WIDTH,
            max_position_embeddings=POSITIONS, **common)), masked),
        "distilbert": (lambda: t.DistilBertModel(t.DistilBertConfig(
            dim=WIDTH, n_layers=2, n_heads=HEADS, hidden_dim=2 * WIDTH, max_position_embeddings=POSITIONS,
            **common)), masked),
        "gpt2": (lambda: t.GPT2Model(t.GPT2Config(
            n_embd=WIDTH, n_layer=2, n_head=HEADS, n_positions=POSITIONS, use_cache=False, **common)), masked),
        "t5": (lambda: t.T5Model(t.T5Config(
            d_model=WIDTH, d_kv=WIDTH // HEADS, d_ff=2 * WIDTH, num_layers=2, num_heads=HEADS, use_cache=False,
            **common)), masked + ["decoder_input_ids"]),
    }


def vision_models():
    try:
        import torchvision
    except ImportError:
        return {}
    return {name: (lambda name=name: torchvision.models.get_model(name, weights=None), ["image"]) for name in VISION}


def example_inputs(torch, names, batch):
    ids = torch.randint(0, VOCABULARY, (batch, SEQUENCE))
    mask = torch.ones(batch, SEQUENCE, dtype=torch.long)
    mask[-1, SEQUENCE // 2:] = 0
    values = {"input_ids": ids, "decoder_input_ids": ids, "attention_mask": mask}
    return tuple(values[name] if name in values else torch.randn(batch, 3, 224, 224) for name in names)


def positional(torch, model, names):
    """The model as a function of its inputs in order, of one result."""
    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            if names == ["image"]:
                return self.model(*values)
            return self.model(**dict(zip(names, values)), return_dict=False)[0]

    return Positional().eval()


def export(torch, path, build, names, exporter, batch):
    torch.manual_seed(0)
    model = positional(torch, build().eval(), names)
    how = {"dynamo": True, "opset_version": 18} if exporter == "dynamo" else {"dynamo": False, "opset_version": 17}
    torch.onnx.export(model, example_inputs(torch, names, batch), path, input_names=names, output_names=["result"],
                      **how)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--exporter", choices=["script", "dynamo"])
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    parser.add_argument("--batch", type=int, default=8)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    try:
        import torch
    except ImportError as e:
        sys.exit(f"export_models.py: torch cannot be imported by {sys.executable} ({e}); expected what pip installs")
    known = {**language_models(args.attention), **vision_models()}
    unknown = [name for name in args.names if name not in known]
    if unknown:
        sys.exit(f"export_models.py: '{unknown[0]}'; expected one of {', '.join(known) or 'none: no package is there'}")
    os.makedirs(args.folder, exist_ok=True)
    written = 0
    for name in args.names or known:
        for exporter in [args.exporter] if args.exporter else ["script", "dynamo"]:
            path = os.path.join(args.folder, f"{name}_{exporter}.onnx")
            try:
                export(torch, path, *known[name], exporter, args.batch)
                print(f"{path}", flush=True)
                written += 1
            except Exception as e:  # of any kind: exporters refuse in many ways
                print(f"{name}, {exporter}: {type(e).__name__}: {' '.join(str(e).split())[:200]}", flush=True)
    sys.exit(0 if written else 1)


if __name__ == "__main__":
    main()
