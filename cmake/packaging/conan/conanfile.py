"""conan create cmake/packaging/conan -s compiler.cppstd=20: a package of the checkout that this file is in."""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2.0"


class unity(ConanFile):
    name = "unity"
    description = "Graph rewriting and search for C++20"
    license = "Apache-2.0"
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"

    @property
    def checkout(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        header = load(self, os.path.join(self.checkout, "include", "unity", "core", "config.hpp"))
        numbers = re.findall(r"^#define UNITY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
        self.version = ".".join(numbers)

    def export_sources(self):
        for what in "CMakeLists.txt", "cmake/*", "include/*", "LICENSE":
            copy(self, what, self.checkout, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("fmt/[>=9 <12]")
        self.requires("range-v3/[>=0.12 <1]")
        self.requires("boost/[>=1.74 <2]", options={"header_only": True})

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for kind in "TESTS", "EXAMPLES", "BENCHMARKS":
            toolchain.cache_variables[f"UNITY_BUILD_{kind}"] = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        if self.settings.os in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
        # CMake finds unity's own package file, which knows the optional parts; a generated one would not.
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "unity")]
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.set_property("cmake_file_name", "unity")
        self.cpp_info.set_property("cmake_target_name", "unity::unity")
        self.cpp_info.set_property("pkg_config_name", "unity")
