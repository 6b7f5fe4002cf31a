#!/usr/bin/env python3
"""Compares docs/schemas with what stands in files, what readers take, and what docs/formats.md tells.

check.py tree              each schema is one, and the source's own files are what theirs say
check.py described         docs/formats.md links each schema and names each member
check.py written BUILD     what the examples and the tests have left in the build folder, headers of sealed files
                           included, is what its schema says, and has no member that the schema does not know
check.py read READER [--seed N] [--count N]
                           files with one thing changed, at random: what a schema refuses, READER refuses as well
"""

import argparse
import copy
import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("schemas: skipped: no jsonschema (apt-get install python3-jsonschema)")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = {path.name.removesuffix(".schema.json"): json.loads(path.read_text())
           for path in sorted((ROOT / "docs/schemas").glob("*.schema.json"))}
FORMATS = {s["properties"]["format"]["const"]: name for name, s in SCHEMAS.items()
           if "const" in s["properties"].get("format", {})}
SEALED = {b"unity weights 1\n": "weights", b"unity dataset 1\n": "dataset", b"unity kernels 1\n": "kernels",
          b"unity learned 1\n": "estimator"}  # of these a schema tells the header
sys.path.insert(0, str(ROOT / "examples/data"))
import sealed_file
faults = []


def fault(text):
    faults.append(text)
    print(f"schemas: {text}")


def closed(schema):
    """The schema without room for members of other names: what readers leave alone, writers do not write."""
    if isinstance(schema, list):
        return [closed(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
        inner.setdefault("additionalProperties", False)
    return inner


def validators(change=lambda s: s):
    schemas = {f"{name}.schema.json": change(copy.deepcopy(schema)) for name, schema in SCHEMAS.items()}
    return {name: jsonschema.Draft202012Validator(
                schemas[f"{name}.schema.json"],
                resolver=jsonschema.RefResolver(f"{name}.schema.json", schemas[f"{name}.schema.json"], store=schemas))
            for name in SCHEMAS}


def complaint(validator, document):
    """What is wrong with the document, in one line; nothing if it is as the schema says."""
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    return "" if error is None else f"{error.json_path}: {error.message[:160]}"


# Members by which files in formats of others are known: traces of Chrome, and the configuration of DeepSpeed.
FOREIGN = {"traceEvents", "train_micro_batch_size_per_gpu"}


def schema_of(document):
    """By its format or, of results, the one that asks for most of the document's members; None: of none."""
    if not isinstance(document, dict):
        return None
    if document.get("format") in FORMATS:
        return FORMATS[document["format"]]

    def share(name):
        asked = set(SCHEMAS[name]["required"])
        return len(asked & document.keys()) / len(asked | document.keys())
    best = max((name for name in SCHEMAS if name.endswith("_result")), key=share)
    return best if share(best) >= 0.5 else None


def check_tree():
    plain = validators()
    for name, schema in SCHEMAS.items():
        try:
            jsonschema.Draft202012Validator.check_schema(schema)
        except jsonschema.exceptions.SchemaError as e:
            fault(f"{name}: {e.json_path}: {e.message}; expected a schema of draft 2020-12")
        if schema.get("$id") != f"{name}.schema.json":
            fault(f"{name}: $id is {schema.get('$id')}; expected the file's name")
    files = sorted((ROOT / "examples").rglob("*.json"))
    strict = validators(closed)
    for path in files:
        document = json.loads(path.read_text())
        name = schema_of(document)
        if name is None:
            fault(f"{path.relative_to(ROOT)}: members of no schema; expected one in docs/schemas")
            continue
        problem = complaint(strict[name], document)
        if problem:
            fault(f"{path.relative_to(ROOT)}: {problem}; expected what {name}.schema.json says")
    return f"{len(plain)} schemas, {len(files)} files"


def members(schema):
    if isinstance(schema, list):
        return set().union(*map(members, schema))
    if not isinstance(schema, dict):
        return set()
    own = set(schema["properties"]) if isinstance(schema.get("properties"), dict) else set()
    return own.union(*map(members, schema.values()))


def check_described():
    text = (ROOT / "docs/formats.md").read_text()
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]*)`", text))))
    count = 0
    for name, schema in SCHEMAS.items():
        if f"(schemas/{name}.schema.json)" not in text:
            fault(f"docs/formats.md: no link to {name}; expected (schemas/{name}.schema.json)")
        for member in sorted(members(schema)):
            count += 1
            if member not in named:
                fault(f"docs/formats.md: nothing of `{member}`, which {name}.schema.json has; expected its meaning")
    return f"{count} members"


def sealed_parts(path):
    """The line, the header and the tensors of a sealed file; None of other files, and of those that
    a test has damaged."""
    with open(path, "rb") as file:
        line = file.read(16)
        content = line in SEALED and line + file.read()
    if not content or len(content) < 48 or sealed_file.checksum(content[:-16]) != content[-16:]:
        return None
    end = 32 + int.from_bytes(content[24:32], "little")
    return line, json.loads(content[32:end]), content[len(sealed_file.aligned(content[:end])):-16]


def check_sealed(build, strict, counts):
    files = [path for place in ("out", "scratch") for path in sorted((build / place).rglob("*"))
             if path.is_file() and path.stat().st_size < 1 << 20]
    for path in files:
        found = sealed_parts(path)
        if found:
            name = SEALED[found[0]]
            counts[name] += 1
            problem = complaint(strict[name], found[1])
            if problem:
                fault(f"{path}: header: {problem}; expected what {name}.schema.json says")


def check_written(build):
    strict = validators(closed)
    # What tests of programs leave in their scratch may be wrong on purpose, but not results.
    places = [(path, True) for path in sorted((build / "out").rglob("*.json"))]
    places += [(path, False) for path in sorted((build / "scratch").rglob("*.json"))]
    counts = dict.fromkeys(SCHEMAS, 0)
    for path, is_example in places:
        try:
            document = json.loads(path.read_text())
        except ValueError as e:
            if is_example:
                fault(f"{path}: {e}; expected JSON")
            continue
        name = schema_of(document)
        if name is None:
            if is_example and not FOREIGN & document.keys():
                fault(f"{path}: members of no schema; expected one in docs/schemas")
            continue
        if name in FORMATS.values() and not is_example:
            continue
        counts[name] += 1
        problem = complaint(strict[name], document)
        if problem:
            fault(f"{path}: {problem}; expected what {name}.schema.json says")
    check_sealed(build, strict, counts)
    if not sum(counts.values()) and not faults:
        print("schemas: skipped: the examples have written nothing yet (ctest -L 'example|programs')")
        sys.exit(77)
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


VALUES = [None, True, False, -1, 0, 1, 2, 0.5, 1e30, "", "x", "a\nb", [], [0], ["x"], {}, {"x": 1}]


def containers(document):
    """Objects and lists, with the path of names that leads there: items of a list are alike."""
    found = []

    def walk(value, path):
        if isinstance(value, (dict, list)):
            if value:
                found.append((path, value))
            for key, inner in (value.items() if isinstance(value, dict) else enumerate(value)):
                walk(inner, path + ((key,) if isinstance(value, dict) else ("*",)))
    walk(document, ())
    return found


def mutated(document, dice):
    """A copy with one thing changed, and what it is. Every kind of place is as likely, however often it occurs."""
    document = copy.deepcopy(document)
    found = containers(document)
    path = dice.choice(sorted({path for path, _ in found}))
    value = dice.choice([v for p, v in found if p == path])
    where = "$" + "".join("[*]" if step == "*" else f".{step}" for step in path)
    key = dice.choice(list(value) if isinstance(value, dict) else range(len(value)))
    step = f".{key}" if isinstance(value, dict) else f"[{key}]"
    how = dice.choice(["remove", "replace", "replace", "add"])
    if how == "remove":
        del value[key]
    elif how == "replace":
        value[key] = copy.deepcopy(dice.choice(VALUES))
        how = f"now {json.dumps(value[key])}"
    elif isinstance(value, dict):
        value["unheard_of"] = copy.deepcopy(dice.choice(VALUES))
        step = ".unheard_of"
    else:
        value.insert(key, copy.deepcopy(dice.choice([value[key], *VALUES])))
    return document, f"{where}{step}: {how}"


class Reader:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def bases(self, kind):
        """What the program has written of the kind: the name, the document, and how a document becomes the bytes
        of a file."""
        if kind in SEALED.values():
            for path in sorted(self.folder.glob(f"{kind}*.sealed")):
                line, header, values = sealed_parts(path)
                yield path.name, header, lambda d, line=line.decode(), v=values: sealed_file.sealed_whole(line, d, v)
        else:
            for path in sorted(self.folder.glob(f"{kind}*.json")):
                yield path.name, json.loads(path.read_text()), lambda d: json.dumps(d).encode()

    def verdicts(self, kind, base, files):
        paths = []
        for number, content in enumerate(files):
            paths.append(self.folder / f"mutated_{number}")
            paths[-1].write_bytes(content)
        plan = [self.folder / base.replace("strategy", "plan")] if kind == "strategy" else []
        run = subprocess.run([self.program, "read", kind, *plan, *paths], check=True, capture_output=True, text=True)
        lines = run.stdout.splitlines()
        assert len(lines) == len(files), run.stdout
        return lines


def present(schema, store, document, seen):
    """Adds to `seen` the objects of the schema's properties that the document has."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            file, _, pointer = schema["$ref"].partition("#")
            store = SCHEMAS[file.removesuffix(".schema.json")] if file else store
            target = store
            for step in filter(None, pointer.split("/")):
                target = target[step]
            present(target, store, document, seen)
        for key in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(key, []):
                present(part, store, document, seen)
        if "then" in schema:
            present(schema["then"], store, document, seen)
        if isinstance(document, dict):
            for name, inner in schema.get("properties", {}).items():
                if name in document:
                    seen.add(id(inner))
                    present(inner, store, document[name], seen)
            if isinstance(schema.get("additionalProperties"), dict):
                for value in document.values():
                    present(schema["additionalProperties"], store, value, seen)
        if isinstance(document, list) and "items" in schema:
            for item in document:
                present(schema["items"], store, item, seen)


def declared(schema, path="$"):
    """All (path, property) of a schema, but for those that only restrict what is declared elsewhere."""
    if isinstance(schema, dict):
        for key, inner in schema.items():
            if key == "properties" and schema.get("type") == "object":
                for name, property in inner.items():
                    yield f"{path}.{name}", property
            if key not in ("if", "then", "dependentSchemas"):
                yield from declared(inner, path if key in ("properties", "$defs", "items") else f"{path}.{key}")
    elif isinstance(schema, list):
        for inner in schema:
            yield from declared(inner, path)


def write_datasets(folder):
    """As examples/data makes them, and smaller."""
    parts = [(f"{part} {what}", dims, bytes(math.prod(dims))) for part, count in (("train", 3), ("test", 2))
             for what, dims in (("samples", [count, 2, 5]), ("labels", [count]))]
    images = {"content": "images", "classes": 10, "sources": {"train": ["a.psf"], "test": ["b.psf"]}}
    text = {"content": "text", "classes": 2, "alphabet": "ab"}
    letters = [("train samples", [70], bytes(70)), ("test samples", [9], bytes(9))]
    for name, header, tensors in (("images", images, parts), ("text", text, letters)):
        whole = sealed_file.sealed("unity dataset 1\n", header, tensors)
        sealed_file.write_whole(folder / f"dataset_{name}.sealed", whole)


def check_read(program, seed, count):
    plain, strict = validators(), validators(closed)
    dice = random.Random(seed)
    seen = set()
    tally = {}
    with tempfile.TemporaryDirectory() as name:
        reader = Reader(program, pathlib.Path(name))
        subprocess.run([program, "write", name], check=True)
        write_datasets(reader.folder)
        for kind in ("machine", "plan", "strategy", "weights", "dataset"):
            own = list(reader.bases(kind))
            both = schema_alone = reader_alone = neither = 0
            for base, document, encoded in own:
                problem = complaint(strict[kind], document)
                if problem:
                    fault(f"{base} as written: {problem}; expected what {kind}.schema.json says")
                present(SCHEMAS[kind], SCHEMAS[kind], document, seen)
                made = [(document, "unchanged")] + [mutated(document, dice) for _ in range(count // len(own))]
                for (changed, what), verdict in zip(made, reader.verdicts(kind, base, [encoded(m[0]) for m in made])):
                    problem = complaint(plain[kind], changed)
                    accepts = verdict == "accepted"
                    both += bool(problem) and not accepts
                    reader_alone += not problem and not accepts
                    neither += not problem and accepts
                    if what == "unchanged" and not accepts:
                        fault(f"{base} as written: the reader: {verdict}; expected that it reads it")
                    if problem and accepts:
                        schema_alone += 1
                        fault(f"seed {seed}: {base}, {what}: the reader takes it; expected that it refuses what "
                              f"the schema does: {problem}")
            tally[kind] = (f"{kind}: {both} refused by both, {reader_alone} by the reader alone, "
                           f"{schema_alone} by the schema alone, {neither} by none")
            if not both or not neither:
                fault(f"{tally[kind]}; expected some refused by both and some by none")
    for kind in ("machine", "graph", "strategy", "plan", "weights", "dataset"):
        for path, property in declared(SCHEMAS[kind]):
            if id(property) not in seen:
                fault(f"{kind}.schema.json: no file has {path}; "
                      f"expected one among those of `{os.path.basename(program)} write`")
    print("\n".join(tally.values()))
    return f"seed {seed}, {count} changes of each format"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["tree", "described", "written", "read"])
    parser.add_argument("place", nargs="?", type=pathlib.Path)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--count", type=int, default=600)
    a = parser.parse_args()
    if (a.place is None) != (a.what in ("tree", "described")):
        parser.error(f"{a.what}: {a.place}; expected BUILD after written, READER after read, and nothing else")
    seed = random.SystemRandom().randrange(10**6) if a.seed is None else a.seed
    done = {"tree": check_tree, "described": check_described, "written": lambda: check_written(a.place),
            "read": lambda: check_read(a.place, seed, a.count)}[a.what]()
    print(f"schemas: {done}; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
