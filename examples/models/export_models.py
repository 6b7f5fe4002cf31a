#!/usr/bin/env python3
"""Exports common models with random weights by PyTorch's own exporters.

    export_models.py FOLDER [NAME...] [--exporter script|dynamo] [--attention eager|sdpa] [--batch N]
                     [--layers N] [--width N] [--sequence N] [--open-batch]

Writes FOLDER/NAME_EXPORTER.onnx for each NAME, by both exporters where none is named; without names all that the
installed packages have. Language models (package transformers) have an attention mask and, by default, two layers of
width 64; the others have their full size (torchvision; dlrm: eight tables of 100,000 rows). A model that an exporter
refuses is reported and skipped. --open-batch: the dimension of samples is dynamic, named `samples`.
Needs `pip install torch onnx onnxscript`, and transformers or torchvision. Exit codes: 0; 1 if nothing was written
or for bad input (one line on standard error); 2 for bad usage.
"""

import argparse
import os
import sys
import warnings

VOCABULARY, HEADS = 100, 4
VISION = ["alexnet", "convnext_tiny", "densenet121", "densenet169", "efficientnet_b0", "efficientnet_v2_s", "googlenet",
          "inception_v3", "maxvit_t", "mnasnet0_5", "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large",
          "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet18", "resnet50", "resnext50_32x4d",
          "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "squeezenet1_0", "squeezenet1_1", "swin_t", "swin_v2_t",
          "vgg11_bn", "vgg16", "vit_b_16", "vit_b_32", "wide_resnet50_2"]


def language_models(args):
    """By name, the model and the names of its inputs."""
    try:
        import transformers as t
    except ImportError:
        return {}
    width, layers, positions = args.width, args.layers, 2 * args.sequence
    common = {"vocab_size": VOCABULARY, "attn_implementation": args.attention}
    of_bert = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": HEADS,
               "intermediate_size": 4 * width, "max_position_embeddings": positions, **common}
    masked = ["input_ids", "attention_mask"]
    return {
        "albert": (lambda: t.AlbertModel(t.AlbertConfig(embedding_size=width, **of_bert)), masked),
        "bert": (lambda: t.BertModel(t.BertConfig(**of_bert)), masked),
        "distilbert": (lambda: t.DistilBertModel(t.DistilBertConfig(
            dim=width, n_layers=layers, n_heads=HEADS, hidden_dim=4 * width, max_position_embeddings=positions,
            **common)), masked),
        "electra": (lambda: t.ElectraModel(t.ElectraConfig(embedding_size=width, **of_bert)), masked),
        "gpt2": (lambda: t.GPT2Model(t.GPT2Config(
            n_embd=width, n_layer=layers, n_head=HEADS, n_positions=positions, use_cache=False, **common)), masked),
        "llama": (lambda: t.LlamaModel(t.LlamaConfig(use_cache=False, **of_bert)), masked),
        "mpnet": (lambda: t.MPNetModel(t.MPNetConfig(**of_bert)), masked),
        "opt": (lambda: t.OPTModel(t.OPTConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=HEADS, ffn_dim=4 * width,
            word_embed_proj_dim=width, max_position_embeddings=positions, use_cache=False, **common)), masked),
        "roberta": (lambda: t.RobertaModel(t.RobertaConfig(**of_bert)), masked),
        "t5": (lambda: t.T5Model(t.T5Config(
            d_model=width, d_kv=width // HEADS, d_ff=4 * width, num_layers=layers, num_heads=HEADS, use_cache=False,
            **common)), masked + ["decoder_input_ids"]),
    }


def vision_models():
    try:
        import torchvision
    except ImportError:
        return {}
    return {name: (lambda name=name: torchvision.models.get_model(name, weights=None), ["image"]) for name in VISION}


TABLES, ROWS, FEATURES = 8, 100_000, 64  # of dlrm


def recommendation_model(torch):
    """A network like DLRM (Naumov et al., 2019): tables, and products of all pairs of their rows."""
    class Recommendation(torch.nn.Module):
        def __init__(self):
            super().__init__()
            def layers(*sizes):
                return torch.nn.Sequential(*(layer for a, b in zip(sizes, sizes[1:])
                                             for layer in (torch.nn.Linear(a, b), torch.nn.ReLU())))
            self.tables = torch.nn.ModuleList(torch.nn.Embedding(ROWS, FEATURES) for _ in range(TABLES))
            self.bottom = layers(13, 512, 256, FEATURES)
            vectors = TABLES + 1
            self.top = torch.nn.Sequential(layers(vectors * (FEATURES + vectors), 1024, 256), torch.nn.Linear(256, 1))

        def forward(self, dense, *rows):
            vectors = [self.bottom(dense)] + [table(row) for table, row in zip(self.tables, rows)]
            z = torch.stack(vectors, 1)
            pairs = torch.bmm(z, z.transpose(1, 2)).flatten(1)
            return torch.sigmoid(self.top(torch.cat([pairs, z.flatten(1)], 1)))

    return Recommendation()


def example_inputs(torch, names, batch, sequence):
    ids = torch.randint(0, VOCABULARY, (batch, sequence))
    mask = torch.ones(batch, sequence, dtype=torch.long)
    mask[-1, sequence // 2:] = 0
    values = {"input_ids": ids, "decoder_input_ids": ids, "attention_mask": mask}
    values["dense"] = torch.randn(batch, 13)
    values |= {f"rows_{i}": torch.randint(0, ROWS, (batch,)) for i in range(TABLES)}
    return tuple(values[name] if name in values else torch.randn(batch, 3, 224, 224) for name in names)


def positional(torch, model, names):
    """The model as a function of positional inputs with one result."""
    class Positional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, *values):
            if names[0] in ("image", "dense"):
                return self.model(*values)
            return self.model(**dict(zip(names, values)), return_dict=False)[0]

    return Positional().eval()


def export(torch, path, build, names, exporter, args):
    torch.manual_seed(0)
    model = positional(torch, build().eval(), names)
    how = {"dynamo": True, "opset_version": 18} if exporter == "dynamo" else {"dynamo": False, "opset_version": 17}
    if args.open_batch:
        how["dynamic_axes"] = {name: {0: "samples"} for name in [*names, "result"]}
    inputs = example_inputs(torch, names, args.batch, args.sequence)
    torch.onnx.export(model, inputs, path, input_names=names, output_names=["result"], **how)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("names", metavar="NAME", nargs="*")
    parser.add_argument("--exporter", choices=["script", "dynamo"])
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    parser.add_argument("--batch", type=int, default=8)
    for name, default in (("--layers", 2), ("--width", 64), ("--sequence", 16)):
        parser.add_argument(name, type=int, default=default, help="of language models")
    parser.add_argument("--open-batch", action="store_true")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    try:
        import torch
    except ImportError as e:
        sys.exit(f"export_models.py: torch cannot be imported by {sys.executable} ({e}); expected what pip installs")
    known = {**language_models(args), **vision_models(),
             "dlrm": (lambda: recommendation_model(torch), ["dense", *(f"rows_{i}" for i in range(TABLES))])}
    unknown = [name for name in args.names if name not in known]
    if unknown:
        sys.exit(f"export_models.py: '{unknown[0]}'; expected one of {', '.join(known) or 'none: no package is there'}")
    os.makedirs(args.folder, exist_ok=True)
    written = 0
    for name in args.names or known:
        for exporter in [args.exporter] if args.exporter else ["script", "dynamo"]:
            path = os.path.join(args.folder, f"{name}_{exporter}.onnx")
            try:
                export(torch, path, *known[name], exporter, args)
                print(f"{path}", flush=True)
                written += 1
            except Exception as e:  # exporters raise many kinds of exceptions
                print(f"{name}, {exporter}: {type(e).__name__}: {' '.join(str(e).split())[:200]}", flush=True)
    sys.exit(0 if written else 1)


if __name__ == "__main__":
    main()
