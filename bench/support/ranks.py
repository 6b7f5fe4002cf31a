"""What scripts share that train plans on ranks: their arguments, how commands run, and the machine, measured."""
import argparse, atexit, os, shutil, subprocess, sys, tempfile


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def arguments(text, steps, *more):
    """Of the command line. more: further flags, each with what argparse takes of it."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--on-ranks")
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", action="append")
    parser.add_argument("--keep")
    for flag, settings in more:
        parser.add_argument(flag, **settings)
    return parser.parse_args()


def prepared(a):
    """A folder to work in, how commands are begun on ranks, and the file of the machine, which is measured."""
    folder = a.keep or tempfile.mkdtemp()
    if not a.keep:
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.makedirs(folder, exist_ok=True)
    started = [a.on_ranks] if a.on_ranks else []
    machine = f"{folder}/machine.json"
    exchanges = ["--largest-exchange", str(1 << 22)] if a.on_ranks else ["--ranks", str(a.ranks)]
    run(*started, f"{a.bin}/calibrate", "--backend", "cpu", "--backend-threads", "1", *exchanges, "--out", machine)
    return folder, started, machine
