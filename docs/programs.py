#!/usr/bin/env python3
"""programs.py BIN [--write]: a page of docs/programs for each program, made from what it prints for --help.

BIN is the folder of the built programs. Without --write, names the pages that are not as their programs say, and fails
if there are any. Exit code 77: a program is missing, or was built without CUDA, so that its help names fewer backends.
"""
import pathlib
import re
import subprocess
import sys

# The guide that shows the program at work.
GUIDES = {
    "calibrate": "optimizing", "diff_plans": "dividing", "distribute": "synchronization",
    "explain_plan": "dividing", "export_plan": "export", "fit_kernels": "machines", "fuse": "fusion",
    "generate_rules": "rules", "measure_kernels": "fusion", "optimize": "optimizing", "parallelize": "dividing",
    "partition_graph": "graphs", "plan_memory": "memory", "replay": "replay", "run_model": "optimizing",
    "simulate": "dividing", "train": "training", "train_estimator": "fusion", "train_graph": "graphs",
    "verify_rules": "rules",
}
FOLDER = pathlib.Path(__file__).resolve().parent / "programs"
MADE = "<!-- Made by docs/programs.py from --help. -->"


def sections(text):
    """What the program does, and the rows (name, text) of each part of its help."""
    about, parts = [], {}
    part = None
    for line in text.splitlines():
        if re.fullmatch(r"\w[\w ]*:", line):
            part = parts.setdefault(line[:-1], [])
        elif part is None and line and not line.startswith("Usage:"):
            about.append(line.rstrip("."))
        elif part is not None and re.match(r"  \S", line):
            name, _, words = line.strip().partition("  ")
            full = re.fullmatch(r"(.*(?:Needs|Excludes): --\S+|\S+ TEXT:\{\S+\}) ([^-.A-Z].*)", name)
            if full:  # the name fills its column
                name, words = full.groups()
            part.append([name, words.strip()])
        elif part is not None and line.strip():
            part[-1][1] = f"{part[-1][1]} {line.strip()}".strip()
    return " ".join(about), parts


def name_of(words):
    """The flag and what it takes, without the types of the parser: `--cost TEXT` becomes `--cost ...`."""
    flag, _, kind = words.partition(" ")
    kind = re.sub(r"\s*(REQUIRED|\(Env:\w+\)|Needs:.*|Excludes:.*)", "", kind)
    choices = re.search(r"\{(.*?)\}", kind)
    if choices:
        taken = choices.group(1).replace(",", "|")
    else:
        taken = re.sub(r":(INT|UINT|FLOAT|TEXT)\b|:\S*", "", kind).replace("TEXT", "...").replace("UINT", "N")
        taken = taken.replace("INT", "N").replace("FLOAT", "X").replace("... ...", "... [...]").strip()
    return f"{flag} {taken}".strip().replace("|", "\\|")


def page(program, text):
    about, parts = sections(text)
    lines = [MADE, "", f"# {program}", "", f"{about}. [Guide](../{GUIDES[program]}.md)."]
    for part, rows in parts.items():
        rows = [r for r in rows if not r[0].startswith("-h,")]
        if rows:
            lines += ["", f"| {'argument' if part == 'Positionals' else 'option'} | |", "|---|---|"]
            lines += [f"| `{name_of(n)}` | {w.replace('|', chr(92) + '|')} |" for n, w in rows]
    return "\n".join(lines) + "\n"


def main():
    programs = pathlib.Path(sys.argv[1])
    pages, about = {}, {}
    for program in sorted(GUIDES):
        if not (programs / program).is_file():
            print(f"programs: skipped: no {program} in {programs}")
            sys.exit(77)
        text = subprocess.run([programs / program, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout
        pages[f"{program}.md"] = page(program, text)
        about[program] = sections(text)[0]
        if program == "calibrate" and "cuda" not in text:
            print(f"programs: skipped: the programs in {programs} are built without CUDA")
            sys.exit(77)
    pages["index.md"] = "\n".join(
        [MADE, "", "# Programs", "",
         "Each program writes a page of its results with `--report page.html`: one file that loads nothing.", "",
         "| program | |", "|---|---|"]
        + [f"| [`{p}`]({p}.md) | {about[p]} |" for p in sorted(GUIDES)]) + "\n"
    wrong = [n for n, t in pages.items() if not (FOLDER / n).is_file() or (FOLDER / n).read_text() != t]
    wrong += [p.name for p in FOLDER.glob("*.md") if p.name not in pages]
    for name in wrong:
        if "--write" not in sys.argv:
            print(f"docs/programs/{name}: not as the program says; docs/programs.py {programs} --write makes it")
        elif name in pages:
            (FOLDER / name).write_text(pages[name])
        else:
            (FOLDER / name).unlink()
    print(f"programs: {len(pages)} pages, {len(wrong)} {'written' if '--write' in sys.argv else 'wrong'}")
    sys.exit(1 if wrong and "--write" not in sys.argv else 0)


main()
