#!/usr/bin/env python3
"""Checks that ISA objects define nothing that another object could define too.

An inline function or template instance is kept once per program, whichever object it comes from. If that is
an object with AVX-512 flags, the program crashes on older processors. So each symbol which an ISA object
defines for the linker must belong to its own namespace mhc::<isa>, or be an instance of one of the project's
templates for a type of that namespace (a manifold over the ISA's vectors), or be a shared constant of the
project (data is the same in every object). Nothing of it may run when the program starts.

    check_symbols.py OBJECT...             prints violations, exit 1 if there are any
    check_symbols.py --self-test COMPILER  proves that a violation is found
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

OBJECT = re.compile(r"_(scalar|avx2|avx512|avx512bf16)(\.cc)?\.(o|obj)$")


def defined_symbols(path):
    """(type, demangled name) of what the linker sees or starts; other local symbols are nobody else's."""
    out = subprocess.run(["nm", "--defined-only", "--demangle", "--format=bsd", path],
                         check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        kind, name = re.match(r"[0-9a-f]*\s+(\S)\s+(.*)$", line).groups()
        if kind.isupper() or kind in "vwui" or name.startswith("_GLOBAL__"):
            yield kind, name


def without_arguments(name):
    """The qualified name alone: no template arguments, parameters, return type or prefix of a table."""
    name = re.sub(r"^(vtable|typeinfo name|typeinfo|VTT|guard variable|TLS \w+ function|reference temporary #\d+) for ",
                  "", name.replace("(anonymous namespace)", "{anonymous}"))
    flat, depth = "", 0
    for i, c in enumerate(re.sub(r"operator(<=>|<<=?|>>=?|<=|>=|<|>|->\*?|\(\))", "operator_", name)):
        if c in "<(":
            depth += 1
        elif c in ">)":
            depth -= 1
        elif depth == 0:
            flat += c
    flat = re.sub(r"( const| volatile|&|\[\w+(:\w+)?\]|@.*)*$", "", flat.split("::{lambda")[0])
    return flat.split(" ")[-1]


def violations(path):
    isa = OBJECT.search(path).group(1)
    for kind, name in defined_symbols(path):
        head = without_arguments(name)
        own = head.startswith(f"mhc::{isa}::")
        instance = head.startswith("mhc::") and re.search(rf"\bmhc::{isa}::", name)
        constant = head.startswith("mhc::") and kind in "uV"
        if not own and not instance and not constant:
            yield f"{Path(path).name}: {kind} {name}"


def check(objects):
    found = [v for path in objects for v in violations(path)]
    count = sum(1 for path in objects for _ in defined_symbols(path))
    print("\n".join(found[:20] + [f"{len(objects)} objects, {count} symbols for the linker, {len(found)} violations"]))
    return found, count


CLEAN = """
    namespace mhc {
    template <class V> struct Manifold { static V twice(const V& v) { return v + v; } };
    static int helper(int n) { return n + 1; }
    [[gnu::always_inline]] inline int forced(int n) { return n * 2; }
    template <int N> inline constexpr int shared[2] = {N, 2 * N};
    namespace avx2 {
    struct Vec { float f; };
    inline Vec operator+(const Vec& a, const Vec& b) { return {a.f + b.f}; }
    inline bool operator<(const Vec& a, const Vec& b) { return a.f < b.f; }
    template <class V> auto apply(V v) { auto f = [](auto w) { return w + w; }; return f(v); }
    struct Table { virtual ~Table() = default; virtual int rows() const { return 3; } };
    template <int N> struct Powers { static constexpr int kValue[2] = {N, N * N}; };
    int post(float* p);
    int post(float* p) {
      static Table table;
      Vec v{p[0]};
      p[0] = apply(Manifold<Vec>::twice(v)).f;
      return helper(forced(table.rows())) + (v < v) + *shared<3> + Powers<2>::kValue[table.rows() & 1];
    }
    }}"""
BROKEN = {
    "inline function": "namespace mhc { inline int size(int n) { return n; }"
                       " namespace avx2 { int post(int n) { return size(n); } } }",
    "instance for a plain type": "namespace mhc { template <class T> T size(T n) { return n; }"
                                 " namespace avx2 { int post(int n) { return size(n); } } }",
    "another ISA's function": "namespace mhc { namespace avx512 { inline int size(int n) { return n; } }"
                              " namespace avx2 { int post(int n) { return avx512::size(n); } } }",
    "container": "#include <vector>\nnamespace mhc { namespace avx2 { float post(int n) "
                 "{ std::vector<float> v; v.push_back(1.0f); return v[n]; } } }",
    "container of its own type": "#include <vector>\nnamespace mhc { namespace avx2 { struct Vec { float f; };"
                                 " float post(int n) { std::vector<Vec> v; v.push_back({1.0f}); return v[n].f; } } }",
    "exported C name": 'extern "C" int mhc_post() { return 1; }',
    "initialiser":
        "namespace mhc { namespace avx2 { int size(); int n = size(); } }",
    "global variable": "namespace mhc { int counter = 1; }",
}


def self_test(compiler):
    wrong = 0
    with tempfile.TemporaryDirectory() as root:
        for name, text in {"clean": CLEAN, **BROKEN}.items():
            source, target = Path(root) / "post_avx2.cc", str(Path(root) / "post_avx2.cc.o")
            source.write_text(text)
            subprocess.run([compiler, "-std=c++20", "-O0", "-fno-exceptions", "-fno-rtti", "-c", source, "-o", target],
                           check=True)
            print(f"--- {name}")
            found, count = check([target])
            if count == 0 or bool(found) != (name != "clean"):
                wrong += 1
                print(f"self-test: {name}: judged wrongly")
    print(f"self-test: {len(BROKEN) + 1} objects, {wrong} judged wrongly")
    return wrong


def main():
    if sys.argv[1] == "--self-test":
        return 1 if self_test(sys.argv[2]) else 0
    found, count = check(sys.argv[1:])
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
