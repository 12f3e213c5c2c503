# Sourced by ./run and ./test: everything they need on a fresh Debian 12 or 13, and little to do on a prepared one.
# shellcheck shell=bash
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT" || exit

# Objects of another checkout on this machine are reused.
export CCACHE_BASEDIR=$ROOT
export NINJA_STATUS="[%f/%t %es] "

say() { printf '\n== %s  (%dm%02ds)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

lines_of() { sed 's/#.*//; s/[[:space:]]*$//; /^$/d' "$1"; }

# install_debian_packages FILE
install_debian_packages() {
  local missing=() package sudo=()
  command -v dpkg-query >/dev/null || { echo "not a Debian: install the likes of $1 yourself"; return; }
  for package in $(lines_of "$1"); do
    dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "Installing Debian packages: ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "need root or sudo for: apt-get install ${missing[*]}"; return 1; }
    sudo=(sudo)
  fi
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q)
  "${apt[@]}" update
  "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

# make_python_environment [FOLDER [INTERPRETER]]
make_python_environment() {
  # A virtual environment holds absolute paths: it belongs to this folder and this interpreter.
  local folder=${1:-.venv} python=${2:-/usr/bin/python3} stamp
  stamp=$(printf '%s\n' "$ROOT" "$("$python" --version)" && cat packages/python.txt packages/python_no_deps.txt)
  [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ] || return 0
  say "Making the Python environment $folder"
  rm -rf "$folder"
  "$python" -m venv "$folder"
  local pip=("$folder/bin/python" -m pip install --disable-pip-version-check --no-input -q)
  "${pip[@]}" -r packages/python.txt
  "${pip[@]}" --no-deps -r packages/python_no_deps.txt
  echo "$stamp" >"$folder/stamp"
}

# Sets NEWER_PYTHON to an interpreter of 3.12 or 3.13 beside an older one of the system, or to nothing.
find_newer_python() {
  local candidate
  NEWER_PYTHON=
  /usr/bin/python3 -c 'import sys; sys.exit(sys.version_info >= (3, 12))' || return 0
  for candidate in python3.13 python3.12 "$HOME"/.pyenv/versions/3.1[23].*/bin/python3; do
    if "$candidate" -c 'import sys, venv; sys.exit(not (3, 12) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
      NEWER_PYTHON=$candidate
    fi
  done
}

# Sets MACHINE_ISAS, what this machine runs, and MHC_ASSUME_ISA, what of it cpuid does not report.
detect_isas() {
  local flags probe
  flags=" $(grep -m1 '^flags' /proc/cpuinfo | cut -d: -f2 || true) "
  has() { local f; for f in "$@"; do [[ $flags == *" $f "* ]] || return 1; done; }
  MACHINE_ISAS=scalar
  MHC_ASSUME_ISA=${MHC_ASSUME_ISA:-}
  if has avx2 fma f16c; then MACHINE_ISAS+=,avx2; fi
  if has avx2 fma f16c avx512f avx512bw avx512dq avx512vl avx512cd; then
    MACHINE_ISAS+=,avx512
    if has avx512_bf16; then
      MACHINE_ISAS+=,avx512bf16
    else
      # Some virtual machines hide the flag of a processor that has the instruction. Ask the processor.
      probe=$(mktemp)
      if cc -mavx512f -mavx512bf16 scripts/probe_avx512bf16.c -o "$probe" && "$probe" 2>/dev/null; then
        MACHINE_ISAS+=,avx512bf16
        MHC_ASSUME_ISA=avx512bf16
      fi
      rm -f "$probe"
    fi
  fi
}

# build PRESET [TARGET...]
build() {
  local preset=$1 log=build/$1.configure.log targets=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  say "Building $preset${*:+: $*}"
  mkdir -p build
  cmake --preset "$preset" -DMHC_ASSUME_ISA="$MHC_ASSUME_ISA" >"$log" 2>&1 || { cat "$log"; return 1; }
  cmake --build "build/$preset" -j "$(nproc)" "${targets[@]}"
}

say "Preparing $ROOT"
install_debian_packages packages/debian.txt
make_python_environment
detect_isas
echo "instruction sets: $MACHINE_ISAS${MHC_ASSUME_ISA:+ ($MHC_ASSUME_ISA not reported by cpuid, but it runs)}"
