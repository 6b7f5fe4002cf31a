"""Writes a module as an ONNX file that the programs read: names of parameters, and no operators on constants."""

import itertools
import math


def export_onnx(module, args, path):
    """Writes the module as an ONNX file in which weights have the names of the module's parameters.

    A matrix that is read transposed is stored transposed, with ".T" after its name, instead of an operator, unless it
    is also read as it is. A parameter that modules share has the first of its names. A tensor that is neither a
    parameter nor a buffer is a constant.
    """
    import onnx
    import torch

    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.dim() == 2 and name.endswith(".T"):
            raise ValueError(f"{name}: a matrix named T; expected another name, as .T marks transposed matrices")
    torch.onnx.export(module, args, str(path), dynamo=True, optimize=False, external_data=False, verbose=False)
    model = onnx.load(str(path))
    _rename(model.graph, first_names(module))  # torch.onnx keeps the last name of a shared parameter
    parameters = {name for name, _ in module.named_parameters()}
    _fold_constants(model, parameters, {name for name, _ in module.named_buffers()})
    _split_tensors(model.graph)
    _drop_empty(model.graph)
    _name_transposed(model.graph)
    onnx.save(model, str(path))


def first_names(module):
    """By name of a parameter or a buffer: the first name that its tensor has."""
    first = {}
    everything = itertools.chain(module.named_parameters(remove_duplicate=False),
                                 module.named_buffers(remove_duplicate=False))
    return {name: first.setdefault(tensor, name) for name, tensor in everything}


def _subgraphs(node):
    for attribute in node.attribute:
        yield from attribute.graphs
        if attribute.HasField("g"):
            yield attribute.g


def _reads(node):
    """Names that the operator reads, or one in its branches or its body."""
    yield from node.input
    for graph in _subgraphs(node):
        for inner in graph.node:
            yield from _reads(inner)
        yield from (value.name for value in graph.output)


def _rename(graph, names):
    for w in graph.initializer:
        w.name = names.get(w.name, w.name)
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = names.get(name, name)
        for inner in _subgraphs(node):
            _rename(inner, names)


LARGEST_CONSTANT = 1 << 24  # elements; a larger one stays the operator that makes it


def _fold_constants(model, parameters, buffers):
    """Makes a constant of what the module computes from constants and buffers alone: rotary frequencies, masks.

    Each device computes these itself, so they are not operators of a plan. Buffers that are read beside parameters or
    activations, such as running means, stay weights.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    versions = {entry.domain: entry.version for entry in model.opset_import}
    sizes = {name: abs(math.prod(dims)) for name, dims in _dims(graph).items()}
    known = {w.name: numpy_helper.to_array(w) for w in graph.initializer if w.name not in parameters}
    made = {name: values for name, values in known.items() if name not in buffers}  # what becomes a constant
    kept = []
    for node in graph.node:
        results = None
        if all(name in known for name in node.input if name) and sizes.get(node.output[0], 0) <= LARGEST_CONSTANT:
            results = _values_of(node, versions, known)
        if results is None:
            kept.append(node)
            continue
        made.update(zip(node.output, results))
        known.update(zip(node.output, results))
    read = {name for node in kept for name in _reads(node)} | {value.name for value in graph.output}
    left = [w for w in graph.initializer if w.name not in made]
    del graph.initializer[:]
    graph.initializer.extend(left)
    del graph.node[:]
    for name, values in made.items():
        if name in read:
            graph.node.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(values, name)))
    graph.node.extend(kept)


def _values_of(node, versions, known):
    """What the operator computes from these values; None if it is random, or the onnx package does not evaluate it."""
    import numpy
    from onnx.reference import ReferenceEvaluator

    is_random = node.op_type.startswith("Random") or node.op_type in ("Bernoulli", "Dropout", "Multinomial")
    if node.domain or is_random or any(_subgraphs(node)):
        return None
    try:
        run = ReferenceEvaluator(node, opsets=versions).run(None, {name: known[name] for name in node.input if name})
    except (NotImplementedError, RuntimeError, TypeError, ValueError):
        return None
    return run if all(isinstance(values, numpy.ndarray) for values in run) else None


def _dims(graph):
    return {v.name: [d.dim_value if d.HasField("dim_value") else -1 for d in v.type.tensor_type.shape.dim]
            for v in [*graph.input, *graph.value_info]}


def _drop_empty(graph):
    """Drops joined tensors without elements, such as what rotary positions leave, and what nothing reads then."""
    empty = {name for name, dims in _dims(graph).items() if 0 in dims}
    for node in graph.node:
        if node.op_type == "Concat" and not empty.issuperset(node.input):
            node.input[:] = [name for name in node.input if name not in empty]
    read = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if not read.isdisjoint(node.output):
            read.update(_reads(node))
            kept.append(node)
    del graph.node[:]
    graph.node.extend(reversed(kept))


def _split_tensors(graph):
    """Splits into tensors instead of sequences of them, which the programs do not read."""
    import numpy
    from onnx import helper, numpy_helper

    dims = _dims(graph)
    numbers = {n.output[0]: numpy_helper.to_array(n.attribute[0].t) for n in graph.node
               if n.op_type == "Constant" and n.attribute[0].name == "value"}
    read_by = {}
    for node in graph.node:
        for name in _reads(node):
            read_by.setdefault(name, []).append(node)
    edited = []
    for node in graph.node:
        edited.append(node)
        readers = read_by.get(node.output[0], [])
        axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
        is_known = len(node.input) == 2 and node.input[1] in numbers and node.input[0] in dims
        if (node.op_type != "SplitToSequence" or not is_known or dims[node.input[0]][axis] < 0 or
                any(r.op_type != "SequenceAt" or r.input[1] not in numbers for r in readers)):
            continue
        size, asked = dims[node.input[0]][axis], numbers[node.input[1]]
        sizes = asked.tolist() if asked.ndim else [min(int(asked), size - at) for at in range(0, size, int(asked))]
        names = [f"{node.output[0]}.{i}" for i in range(len(sizes))]
        lengths = numpy_helper.from_array(numpy.array(sizes, numpy.int64))
        edited[-1:] = [helper.make_node("Constant", [], [f"{node.output[0]}.sizes"], value=lengths),
                       helper.make_node("Split", [node.input[0], f"{node.output[0]}.sizes"], names, axis=axis)]
        for reader in readers:
            reader.CopyFrom(helper.make_node("Identity", [names[int(numbers[reader.input[1]])]], list(reader.output)))
    del graph.node[:]
    graph.node.extend(edited)


def _name_transposed(graph):
    import numpy
    from onnx import numpy_helper

    matrices = {w.name: w for w in graph.initializer if len(w.dims) == 2}
    results = {value.name for value in graph.output}

    def is_transposition(node):
        perm = next((list(a.ints) for a in node.attribute if a.name == "perm"), [1, 0])
        return node.op_type == "Transpose" and perm == [1, 0] and node.output[0] not in results

    def reads_transposed(node, operand):
        swaps = node.op_type == "Gemm" and operand == 1 and any(a.name == "transB" and a.i for a in node.attribute)
        return swaps or is_transposition(node)

    for name in results:
        matrices.pop(name, None)
    for node in graph.node:
        for operand, name in enumerate(_reads(node)):
            if operand >= len(node.input) or not reads_transposed(node, operand):
                matrices.pop(name, None)
    made = {}

    def transposed(name):
        new = name + ".T"
        if new not in made:
            values = numpy.ascontiguousarray(numpy_helper.to_array(matrices[name]).T)
            made[new] = numpy_helper.from_array(values, new)
        return new

    kept = []
    renamed = {}
    for node in graph.node:
        if is_transposition(node) and node.input[0] in matrices:
            renamed[node.output[0]] = transposed(node.input[0])
            continue
        if node.op_type == "Gemm" and node.input[1] in matrices:
            node.input[1] = transposed(node.input[1])
            next(a for a in node.attribute if a.name == "transB").i = 0
        for i, name in enumerate(node.input):
            node.input[i] = renamed.get(name, name)
        kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in _reads(node)} | {value.name for value in graph.output}
    left = [w for w in [*graph.initializer, *made.values()] if w.name in read]
    del graph.initializer[:]
    graph.initializer.extend(left)
