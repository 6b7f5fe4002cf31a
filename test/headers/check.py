#!/usr/bin/env python3
"""Each header includes what it uses, whatever was included before it, and guards itself.

usage: check.py --include DIR [--flags FILE] [--library LIBCLANG] [--list FILE] [HEADER...]

All headers (names under DIR; if none is said, all *.hpp below it) are parsed once, one after the other, by libclang.
The record of the preprocessor says which file includes which. What a header names (types, templates, concepts,
functions, operators, members, variables, macros) must be declared in the header or in a file that it includes, directly
or not; of an overloaded name that is not resolved yet, at least one candidate. A variable, a member, a base and a
parameter of a function that is defined need the definition of their class. FILE has further flags of the compiler, one
a line. The exit code is 1 where something is missing, and each is a line: FILE:LINE: `NAME` is declared in OTHER, ...

What it does not see: names that depend on template arguments and are looked up where a template is instantiated, and
macros in #if and #ifdef. Headers that are compiled alone find some of these (UNITY_TEST_HEADERS).
"""
import argparse
import collections
import ctypes
import pathlib
import re
import sys

import clang.cindex as cindex
from clang.cindex import Cursor, CursorKind, SourceLocation, Type

REFERENCES = {k.value for k in (
    CursorKind.TYPE_REF, CursorKind.CXX_BASE_SPECIFIER, CursorKind.TEMPLATE_REF, CursorKind.NAMESPACE_REF,
    CursorKind.MEMBER_REF, CursorKind.OVERLOADED_DECL_REF, CursorKind.VARIABLE_REF, CursorKind.DECL_REF_EXPR,
    CursorKind.MEMBER_REF_EXPR, CursorKind.CALL_EXPR)}
OVERLOADED, NAMESPACE = CursorKind.OVERLOADED_DECL_REF.value, CursorKind.NAMESPACE.value
LINKAGE, UNEXPOSED = CursorKind.LINKAGE_SPEC.value, CursorKind.UNEXPOSED_DECL.value
HOLDS = {k.value for k in (CursorKind.FIELD_DECL, CursorKind.VAR_DECL, CursorKind.CXX_BASE_SPECIFIER)}
FUNCTIONS = {k.value for k in (CursorKind.FUNCTION_DECL, CursorKind.CXX_METHOD, CursorKind.CONSTRUCTOR,
                               CursorKind.FUNCTION_TEMPLATE)}
PARAMETER = CursorKind.PARM_DECL.value
BUILT_IN = -1
CONTINUE, RECURSE = 1, 2
VISITOR = ctypes.CFUNCTYPE(ctypes.c_int, Cursor, Cursor, ctypes.c_void_p)


class text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("flags", ctypes.c_uint)]


# libclang's own functions: its package for Python takes longer to make a cursor than is spent on one here.
def load(path):
    lib, number, handle = ctypes.CDLL(path), ctypes.c_uint, ctypes.c_void_p
    for name, result, *arguments in (
            ("visitChildren", number, Cursor, VISITOR, handle), ("getIncludedFile", handle, Cursor),
            ("getFileName", text, handle), ("getCString", ctypes.c_char_p, text),
            ("getCursorLocation", SourceLocation, Cursor), ("getCanonicalCursor", Cursor, Cursor),
            ("getCursorReferenced", Cursor, Cursor), ("getCursorDefinition", Cursor, Cursor),
            ("isCursorDefinition", number, Cursor), ("Cursor_isNull", ctypes.c_int, Cursor),
            ("getNumOverloadedDecls", number, Cursor), ("getOverloadedDecl", Cursor, Cursor, number),
            ("getCursorType", Type, Cursor), ("getCanonicalType", Type, Type), ("getTypeDeclaration", Cursor, Type),
            ("getSpecializedCursorTemplate", Cursor, Cursor), ("getCursorDisplayName", text, Cursor),
            ("getInstantiationLocation", None, SourceLocation, *4 * [handle])):
        function = getattr(lib, "clang_" + name)
        function.restype, function.argtypes = result, arguments
        setattr(lib, name, function)
    return lib


class checker:
    def __init__(self, lib, unit, root):
        self.unit, self.root, self.lib = unit, root, lib
        self.numbers = {}                             # of a file's handle
        self.paths = []                               # by number
        self.number_of_path = {}
        self.includes = collections.defaultdict(set)  # numbers by number
        self.spaces = collections.defaultdict(set)    # files by namespace
        self.declared = {}                            # files by what is referred to
        self.complete = {}                            # file of the definition by class
        self.checked = {}                             # header by number
        self.reach = {}                               # closure by number
        self.found = collections.defaultdict(set)     # (line, name) by header and where the name is declared
        self.seen = set()                             # variables that are templates

    # Paths are made absolute: the same file has several handles where it is reached by several names.
    def number(self, file):
        if not file:
            return BUILT_IN
        if file not in self.numbers:
            path = pathlib.Path(self.lib.getCString(self.lib.getFileName(file)).decode()).resolve()
            if path not in self.number_of_path:
                self.number_of_path[path] = len(self.paths)
                self.paths.append(path)
            self.numbers[file] = self.number_of_path[path]
        return self.numbers[file]

    def place(self, cursor):
        """File and line where the cursor is, after macros."""
        file, line = ctypes.c_void_p(), ctypes.c_uint()
        location = self.lib.getCursorLocation(cursor)
        self.lib.getInstantiationLocation(location, ctypes.byref(file), ctypes.byref(line), None, None)
        return self.number(file.value), line.value

    def visit(self, cursor, function):
        callback = VISITOR(function)
        self.lib.visitChildren(cursor, callback, None)

    def run(self, headers):
        macros, top, unguarded = [], [], []
        inclusion, expansion = CursorKind.INCLUSION_DIRECTIVE.value, CursorKind.MACRO_INSTANTIATION.value
        definition = CursorKind.MACRO_DEFINITION.value

        def sort(child, parent, data):
            kind = child._kind_id
            if kind == inclusion:
                file = self.lib.getIncludedFile(child)
                if file:
                    self.includes[self.place(child)[0]].add(self.number(file))
            elif kind == expansion:
                macros.append(Cursor.from_buffer_copy(child))
            elif kind != definition:
                top.append(Cursor.from_buffer_copy(child))
            return CONTINUE

        self.visit(self.unit.cursor, sort)
        for header in headers:
            path = (self.root / header).resolve()
            self.checked[self.number_of_path[path]] = header
            if not re.search(r"^[ \t]*#[ \t]*pragma[ \t]+once\b", path.read_text(encoding="utf-8"), re.MULTILINE):
                unguarded.append((header, 1, "no #pragma once"))
        for cursor in macros:
            file, _ = self.place(cursor)
            if file in self.checked:
                self.refer(cursor, file)
        declarations = []
        self.collect(top, declarations)
        for cursor, file in declarations:
            self.walk(cursor, file)
        return sorted([*unguarded, *self.problems()])

    def collect(self, cursors, declarations):
        """Declarations of the checked headers; namespaces, which are opened in many, are noted."""
        for cursor in cursors:
            file, _ = self.place(cursor)
            kind = cursor._kind_id
            if kind in (NAMESPACE, LINKAGE):
                if kind == NAMESPACE:
                    self.spaces[self.lib.getCanonicalCursor(cursor).data[0]].add(file)
                if file in self.checked:
                    inside = []

                    def keep(child, parent, data):
                        inside.append(Cursor.from_buffer_copy(child))
                        return CONTINUE
                    self.visit(cursor, keep)
                    self.collect(inside, declarations)
            elif file in self.checked and not self.implicit(cursor):
                declarations.append((cursor, file))

    def implicit(self, cursor):
        """A specialization that stands where its template does: nobody wrote it, and its arguments come from elsewhere.
        libclang has no kind for variables that are templates, and lists what is made of one after it."""
        if cursor._kind_id == UNEXPOSED:
            key = (*self.place(cursor), self.name(cursor))
            again = key in self.seen
            self.seen.add(key)
            return again
        template = self.lib.getSpecializedCursorTemplate(cursor)
        return not self.lib.Cursor_isNull(template) and self.place(template) == self.place(cursor)

    def walk(self, cursor, file):
        def each(child, parent, data):
            kind = child._kind_id
            if kind in REFERENCES:
                self.refer(child, file)
            if kind in HOLDS or (kind == PARAMETER and parent._kind_id in FUNCTIONS
                                 and self.lib.isCursorDefinition(parent)):
                self.hold(child, file)
            return RECURSE
        each(cursor, cursor, None)
        self.visit(cursor, each)

    def closure(self, file):
        if file not in self.reach:
            reached, left = {file, BUILT_IN}, [file]
            while left:
                for other in self.includes[left.pop()] - reached:
                    reached.add(other)
                    left.append(other)
            self.reach[file] = reached
        return self.reach[file]

    def refer(self, cursor, file):
        target = self.lib.getCursorReferenced(cursor)
        if self.lib.Cursor_isNull(target):
            return
        if target._kind_id == OVERLOADED and self.name(target).startswith("operator"):
            return  # of arguments that are not known yet: those that are there by then count
        files = self.files_of(target)
        if files and not (files & self.closure(file)):
            self.report(cursor, file, target, files)

    # The files that declare it; where there is a choice, one of them suffices.
    def files_of(self, target):
        kind = target._kind_id
        if kind == OVERLOADED:
            files = set()
            for i in range(self.lib.getNumOverloadedDecls(target)):
                files |= self.files_of(self.lib.getOverloadedDecl(target, i))
            return files
        if kind == NAMESPACE:
            return self.spaces[self.lib.getCanonicalCursor(target).data[0]]
        key = target.data[0]
        if key not in self.declared:
            cursors = (target, self.lib.getCanonicalCursor(target), self.lib.getCursorDefinition(target))
            self.declared[key] = {self.place(c)[0] for c in cursors if not self.lib.Cursor_isNull(c)}
        return self.declared[key]

    def hold(self, cursor, file):
        kind = self.lib.getCanonicalType(self.lib.getCursorType(cursor))
        declaration = self.lib.getTypeDeclaration(kind)
        if declaration._kind_id == CursorKind.NO_DECL_FOUND.value:
            return
        key = declaration.data[0]
        if key not in self.complete:
            template = self.lib.getSpecializedCursorTemplate(declaration)
            definition = self.lib.getCursorDefinition(declaration if self.lib.Cursor_isNull(template) else template)
            self.complete[key] = (None if self.lib.Cursor_isNull(definition)
                                  else (definition, {self.place(definition)[0]}))
        if self.complete[key] is not None and not self.complete[key][1] & self.closure(file):
            self.report(cursor, file, *self.complete[key])

    def name(self, cursor):
        return self.lib.getCString(self.lib.getCursorDisplayName(cursor)).decode() or "?"

    def report(self, cursor, file, target, files):
        if target._kind_id == OVERLOADED:
            target = self.lib.getOverloadedDecl(target, 0)
        if self.name(target).startswith("__builtin_"):
            return  # declared where it was first named
        self.found[self.checked[file], frozenset(files)].add((self.place(cursor)[1], self.name(target)))

    def problems(self):
        """(header, line, text), one for each header and what it should include."""
        for (header, files), uses in self.found.items():
            line, name = min(uses)
            more = len({n for _, n in uses}) - 1
            others = f" and {more} more names are" if more > 1 else " and another name are" if more else " is"
            where = " or ".join(sorted(self.shown(f) for f in files)[:3])
            yield header, line, f"`{name}`{others} declared in {where}, which is not included"

    def shown(self, number):
        if number in self.checked:
            return f"<{self.checked[number]}>"
        return str(self.paths[number])


def shown(file, root):
    path = pathlib.Path(str(file)).resolve()
    return str(path.relative_to(root.resolve())) if path.is_relative_to(root.resolve()) else str(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--flags", type=pathlib.Path)
    parser.add_argument("--library", default="/usr/lib/llvm-19/lib/libclang-19.so.1")
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("headers", nargs="*")
    a = parser.parse_args()
    headers = a.headers or sorted(str(p.relative_to(a.include)) for p in a.include.rglob("*.hpp"))
    if a.list:
        headers = a.list.read_text().split()
    flags = a.flags.read_text().splitlines() if a.flags else []
    cindex.Config.set_library_file(a.library)
    source = "".join(f"#include <{h}>\n" for h in headers)
    unit = cindex.Index.create().parse(
        "all_headers.cpp", ["-std=c++20", f"-I{a.include}", *(f for f in flags if f)],
        unsaved_files=[("all_headers.cpp", source)],
        # Incomplete: what is instantiated at the end nobody wrote, and it takes a third of the time.
        options=cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD | cindex.TranslationUnit.PARSE_INCOMPLETE)
    errors = [(shown(d.location.file, a.include), d.location.line, d.spelling) for d in unit.diagnostics
              if d.severity >= cindex.Diagnostic.Error]
    found = checker(load(a.library), unit, a.include).run(headers)
    for path, line, problem in errors[:20] + found:
        print(f"{path}:{line}: {problem}")
    print(f"{len(headers)} headers, {len(found)} missing includes, {len(errors)} errors")
    return 1 if found or errors else 0


if __name__ == "__main__":
    sys.exit(main())
