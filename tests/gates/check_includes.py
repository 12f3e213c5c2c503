#!/usr/bin/env python3
"""Checks who includes whom: layers, framework headers, and what ISA files may see.

    check_includes.py ROOT            prints violations, exit 1 if there are any
    check_includes.py --self-test     proves that each rule catches a violation
"""
import re
import sys
import tempfile
from pathlib import Path

# A folder may include itself and what is named here. Folders of kernels/ never see each other.
BELOW = {
    "base": set(),
    "manifold": {"base"},
    "kernels/common": {"base", "manifold"},
    "kernels/*": {"base", "manifold", "kernels/common"},
    "layer": {"base", "manifold", "kernels/common", "kernels/*"},
    "tune": {"base", "manifold", "kernels/common", "kernels/*"},
    "api": {"base", "manifold", "kernels/common", "kernels/*", "layer", "tune", "public"},
    "verify": {"base", "manifold", "kernels/common", "kernels/*", "layer", "tune"},
    "public": set(),
    "examples": {"public"},
}
UNRESTRICTED = ("tools", "tests", "bindings")

# Headers of <...> that need no other package.
SYSTEM = re.compile(
    r"[a-z0-9_]+$|(x86|imm|arm_neon|cpuid|pthread|sched|unistd|errno|fcntl|dlfcn|link|malloc|fenv)[a-z0-9_]*\.h$"
    r"|(sys|linux|asm)/\w+\.h$|std(def|int|bool|io|lib|arg|align)\.h$|(string|math|float|limits)\.h$")
FRAMEWORKS = re.compile(r"(xla|torch|ATen|c10|jaxlib|pybind11|nanobind|numpy)/|Python\.h$")
CUDA = re.compile(r"cuda|cublas|cub/|nv")
# What an object with ISA flags may see, through any number of headers: no containers and no algorithms, whose
# code the linker could keep for the rest of the program. The symbol check proves that nothing came of the rest.
ISA_SYSTEM = {
    "bit", "cfloat", "climits", "cmath", "compare", "concepts", "cstdarg", "cstddef", "cstdint", "cstdio", "cstring",
    "immintrin.h", "limits", "numbers", "span", "type_traits", "utility", "version"}
ISA_FILE = re.compile(r"_(scalar|avx2|avx512|avx512bf16)\.cc$|-inl\.h$")
TEST_FILE = re.compile(r"_(test|bench)(_\w+)?\.(cc|h)$")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".c", ".cu"}


def layer_of(path):
    """The layer of a file named relative to the root, or of the target of an include relative to src/."""
    parts = path.split("/")
    if parts[0] == "include":
        return "public"
    if parts[0] == "src":
        parts = parts[1:]
    if parts[0] == "kernels" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0]


def may_include(source, target):
    generic = lambda layer: "kernels/*" if re.match(r"kernels/(?!common$)", layer) else layer
    return source == target or generic(target) in BELOW[generic(source)]


def includes(text):
    return [(m.group(1) == '"', m.group(2), text.count("\n", 0, m.start()) + 1) for m in INCLUDE.finditer(text)]


def is_isa(path):
    return path.startswith("src/") and bool(ISA_FILE.search(path) or path.startswith("src/base/simd/")) \
        and not TEST_FILE.search(path)


class Checker:
    def __init__(self, root):
        self.root = Path(root)
        self.files = {}
        for top in ("include", "src", "tools", "examples", "tests", "bindings"):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix in SUFFIXES and path.is_file():
                    self.files[path.relative_to(self.root).as_posix()] = includes(path.read_text())
        # Made by the build.
        manifolds = [f for f in self.files if re.fullmatch(r"src/manifold/\w+\.h", f) and not f.endswith("_test.h")]
        self.files.setdefault("src/manifold/list.h", [(True, f[len("src/"):], 0) for f in manifolds])
        self.files.setdefault("include/mhc/version.h", [])

    def resolve(self, name):
        """The project's file that an include names, None for one of another package."""
        for path in (f"src/{name}", f"include/{name}"):
            if path in self.files:
                return path
        return None

    def violations(self):
        for path, found in self.files.items():
            for quoted, name, line in found:
                for complaint in self.check(path, quoted, name):
                    yield f"{path}:{line}: {complaint}"
            if is_isa(path):
                yield from self.check_isa(path)

    def check(self, path, quoted, name):
        source = layer_of(path)
        test = bool(TEST_FILE.search(path)) or source in UNRESTRICTED
        target = self.resolve(name)
        if name.startswith("."):
            yield f'"{name}": name it from src/ or include/'
        elif target is None and quoted and source not in UNRESTRICTED and source != "examples":
            yield f'"{name}" is no file of src/ or include/'
        elif target is not None and source not in UNRESTRICTED:
            layer = layer_of(target)
            if not may_include(source, layer) and not (test and layer in ("verify", "kernels/common")):
                yield f'{source} must not include "{name}" of {layer}'
        elif target is None and FRAMEWORKS.match(name):
            if source != "bindings":
                yield f"<{name}>: framework headers belong under bindings/"
        elif target is None and CUDA.match(name):
            if not path.endswith(".cu") and not path.startswith("src/base/cuda/"):
                yield f"<{name}>: CUDA headers belong in .cu files"
        elif target is None and not test and source not in ("verify", "examples") and not SYSTEM.match(name):
            yield f"<{name}>: {source} uses only the standard library"

    def check_isa(self, path):
        """Walks everything the ISA file includes and names the chain to a header it must not see."""
        seen, todo = set(), [(path, path)]
        while todo:
            current, chain = todo.pop()
            for _, name, _ in self.files[current]:
                target = self.resolve(name)
                if target is None and name not in ISA_SYSTEM:
                    yield f"{path}: an ISA file must not see <{name}> (through {chain})"
                elif target is not None and target not in seen:
                    seen.add(target)
                    todo.append((target, f"{chain} > {target}"))


def self_test():
    """Each tree differs from a clean one by one file; the checker must name exactly that file."""
    clean = {
        "include/mhc/mhc.h": "#include <stdint.h>\n#include <mhc/version.h>\n",
        "include/mhc/mhc.hpp": "#include <mhc/mhc.h>\n#include <vector>\n",
        "src/base/dims.h": "#include <cstdint>\n",
        "src/base/pool.cc": '#include <sys/mman.h>\n#include <thread>\n#include "base/dims.h"\n',
        "src/base/simd/avx2.h": '#include <immintrin.h>\n#include "base/dims.h"\n',
        "src/manifold/identity.h": '#include "base/dims.h"\n',
        "src/kernels/common/row.h": '#include "manifold/list.h"\n',
        "src/kernels/post/post.h": '#include "kernels/common/row.h"\n',
        "src/kernels/post/post-inl.h": '#include "kernels/post/post.h"\n',
        "src/kernels/post/post_avx2.cc": '#include "base/simd/avx2.h"\n#include "kernels/post/post-inl.h"\n',
        "src/kernels/post/post_test.cc": '#include <gtest/gtest.h>\n#include <vector>\n#include "verify/bound.h"\n',
        "src/kernels/pre/pre.h": '#include "kernels/common/row.h"\n',
        "src/layer/site.cc": '#include <vector>\n#include "kernels/post/post.h"\n#include "kernels/pre/pre.h"\n',
        "src/api/api.cc": '#include <mhc/mhc.h>\n#include "layer/site.h"\n',
        "src/layer/site.h": "",
        "src/verify/bound.h": '#include <nlohmann/json.hpp>\n#include "kernels/post/post.h"\n',
        "tools/mhc/main.cc": '#include <CLI/CLI.hpp>\n#include "verify/bound.h"\n#include "tools_own.h"\n',
        "examples/infer.c": "#include <mhc/mhc.h>\n#include <stdio.h>\n",
        "bindings/jax/post.cc": '#include <xla/ffi/api/ffi.h>\n#include "layer/site.h"\n',
    }
    broken = {
        "src/base/up.h": '#include "manifold/identity.h"\n',
        "src/base/guess.h": '#include "no/such.h"\n',
        "src/base/relative.h": '#include "../base/dims.h"\n',
        "src/base/json.cc": "#include <nlohmann/json.hpp>\n",
        "src/manifold/up.cc": '#include "kernels/common/row.h"\n',
        "src/kernels/common/op.h": '#include "kernels/post/post.h"\n',
        "src/kernels/pre/side.cc": '#include "kernels/post/post.h"\n',
        "src/kernels/pre/side_test.cc": '#include "kernels/post/post.h"\n',
        "src/kernels/pre/verify.cc": '#include "verify/bound.h"\n',
        "src/kernels/pre/pre_avx2.cc": "#include <algorithm>\n",
        "src/kernels/pre/pre-inl.h": '#include "kernels/pre/hidden.h"\n',
        "src/base/simd/bad.h": "# include <string>\n",
        "src/tune/side.cc": '#include "layer/site.h"\n',
        "src/layer/up.cc": '#include <mhc/mhc.h>\n',
        "src/verify/up.cc": '#include <mhc/mhc.h>\n',
        "src/api/torch.cc": "#include <torch/extension.h>\n",
        "src/api/cuda.cc": "#include <cuda_runtime.h>\n",
        "include/mhc/bad.h": '#include "base/dims.h"\n',
        "include/mhc/fmt.hpp": "#include <fmt/format.h>\n",
        "examples/inside.cc": '#include "layer/site.h"\n',
    }
    hidden = {"src/kernels/pre/hidden.h": "#include <functional>\n"}
    failures = 0
    for name, text in {"": "", **broken}.items():
        with tempfile.TemporaryDirectory() as root:
            for path, content in {**clean, **hidden, **({name: text} if name else {})}.items():
                (Path(root) / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(root) / path).write_text(content)
            found = list(Checker(root).violations())
        right = (len(found) == 1 and found[0].startswith(name + ":")) if name else not found
        if not right:
            failures += 1
            print(f"self-test: {name or 'clean tree'}: found {found}")
    print(f"self-test: {len(broken) + 1} trees, {failures} judged wrongly")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        return 1 if self_test() else 0
    checker = Checker(sys.argv[1])
    found = list(checker.violations())
    print("\n".join(found + [f"{len(checker.files)} files, {len(found)} violations"]))
    return 1 if found or not checker.files else 0


if __name__ == "__main__":
    sys.exit(main())
