#!/usr/bin/env python3
"""versions.py ROOT: what states a version says that of include/unity/core/config.hpp."""
import json
import pathlib
import re
import sys
import types

ROOT = pathlib.Path(sys.argv[1])


def of_header():
    text = (ROOT / "include/unity/core/config.hpp").read_text()
    return ".".join(re.search(rf"^#define UNITY_VERSION_{part} (\d+)$", text, re.MULTILINE)[1]
                    for part in ("MAJOR", "MINOR", "PATCH"))


def of_port():
    manifest = json.loads((ROOT / "cmake/packaging/vcpkg/vcpkg.json").read_text())
    return manifest["version"] if manifest["name"] == "unity" else f"version of {manifest['name']}"


def of_recipe():
    """What Conan would be told, without Conan: its modules are empty but for the names that the recipe takes."""
    path = ROOT / "cmake/packaging/conan/conanfile.py"
    names = ("ConanFile", object), ("load", lambda _, file: pathlib.Path(file).read_text())
    for module in "conan", "conan.tools", "conan.tools.build", "conan.tools.cmake", "conan.tools.files":
        sys.modules[module] = types.ModuleType(module)
        sys.modules[module].__dict__.update(names)
        sys.modules[module].__getattr__ = lambda name: None
    scope = {"__name__": "conanfile"}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    recipe = scope["unity"]()
    recipe.recipe_folder = path.parent
    recipe.set_version()
    return recipe.version


def of_readme():
    return re.search(r"find_package\(unity ([\d.]+)", (ROOT / "README.md").read_text())[1]


def of_changelog():
    return re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]


def main():
    version = of_header()
    minor = version.rpartition(".")[0]
    failures = 0
    for what, stated, expected in (("cmake/packaging/vcpkg/vcpkg.json", of_port, version),
                                   ("cmake/packaging/conan/conanfile.py", of_recipe, version),
                                   ("README.md: find_package", of_readme, minor),
                                   ("CHANGELOG.md: the first heading", of_changelog, version)):
        said = stated()
        if said != expected:
            print(f"{what} says {said}, expected {expected} as include/unity/core/config.hpp does")
            failures += 1
    print(f"4 places that state version {version}, {failures} failures")
    sys.exit(1 if failures else 0)


main()
