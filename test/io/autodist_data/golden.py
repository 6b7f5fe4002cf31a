#!/usr/bin/env python3
"""golden.py: writes golden_*.txt, what AutoDist's rules say of five weights on two devices that serve, by plain loops,
and golden_*.pb, what protoc makes of it. Weights have axes of a prime, of one and of two elements, and one is a table
that lookups read. test/io/autodist_strategy.cpp compares with the bytes."""
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
WEIGHTS = [("seven", (7, 4), False), ("thirteen", (13,), False), ("one", (1, 9), False), ("two", (2, 3), False),
           ("table", (8, 4), True)]
DEVICES = ["n0/gpu0", "n0/gpu1"]
CHUNK = 5


def size(dims):
    return 4 * dims[0] * (dims[1] if len(dims) > 1 else 1)


def divisor(n):
    return next((k for k in range(2, n) if n % k == 0), n)


def no_divisor(n):
    return next((k for k in range(2, n) if n % k != 0), n)


def server(device):
    return f'PSSynchronizer {{ reduction_destination: "{DEVICES[device]}" sync: true }}'


def reduction(group):
    return f"AllReduceSynchronizer {{ group: {group} }}"


def node(name, dims, parts):
    if len(parts) == 1:
        return f'node_config {{ var_name: "{name}" {parts[0]} }}\n'
    partitioner = ",".join([str(len(parts))] + ["1"] * (len(dims) - 1))
    return (f'node_config {{ var_name: "{name}" partitioner: "{partitioner}"\n'
            + "".join(f'  part_config {{ var_name: "{name}/part_{k}" {p} }}\n' for k, p in enumerate(parts)) + "}\n")


def served(count_of):
    loads, nodes = [0, 0], ""
    for name, dims, _ in WEIGHTS:
        first = 0 if loads[0] <= loads[1] else 1
        count, parts = count_of(dims[0]), []
        for k in range(count):
            device = (first + k) % 2
            loads[device] += size(dims) / count
            parts.append(server(device))
        nodes += node(name, dims, parts)
    return nodes


def reduced_in_parts():
    nodes, place = "", 0
    dense = sum(divisor(dims[0]) for _, dims, is_table in WEIGHTS if not is_table)
    for name, dims, is_table in WEIGHTS:
        count = divisor(dims[0])
        alone = (dense - 1) // CHUNK + 1
        nodes += node(name, dims, [reduction(alone + k if is_table else (place + k) // CHUNK) for k in range(count)])
        place += count
    return nodes


def parallax():
    return "".join(node(name, dims, [server(0) if is_table else reduction(i // CHUNK)])
                   for i, (name, dims, is_table) in enumerate(WEIGHTS))


RULES = {"partitioned_ps": served(divisor), "uneven_partitioned_ps": served(no_divisor),
         "partitioned_all_reduce": reduced_in_parts(), "parallax": parallax()}
for rule, nodes in RULES.items():
    text = f'id: "{rule}"\n{nodes}graph_config {{ ' + " ".join(f'replicas: "{d}"' for d in DEVICES) + " }\n"
    (HERE / f"golden_{rule}.txt").write_text(text)
    made = subprocess.run(["protoc", f"-I{HERE}", "--encode=autodist.proto.Strategy", "strategy.proto"],
                          input=text.encode(), stdout=subprocess.PIPE, check=True)
    (HERE / f"golden_{rule}.pb").write_bytes(made.stdout)
