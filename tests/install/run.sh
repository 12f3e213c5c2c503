#!/bin/bash
# Installs a build into an empty prefix; builds and runs a consumer against it, by CMake and by pkg-config.
#   run.sh CMAKE GENERATOR BUILD_DIR CC CXX
set -euo pipefail
cmake=$1 generator=$2 build=$3 cc=$4 cxx=$5
source=$(cd "$(dirname "$0")/consumer" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$cmake" --install "$build" --prefix "$work/prefix" | sed "s|$work/||"

echo "-- by find_package"
"$cmake" -G "$generator" -S "$source" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" >"$work/log" || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/build"
"$work/build/consumer_c"
"$work/build/consumer_cc"

echo "-- by pkg-config"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name mhc.pc)")
libdir=$(pkg-config --variable=libdir mhc)
# Flags are words to be split.
# shellcheck disable=SC2046
"$cc" -std=c11 "$source/consumer.c" $(pkg-config --cflags --libs mhc) -Wl,-rpath,"$libdir" -o "$work/pc_c"
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$source/consumer.cc" $(pkg-config --cflags --libs mhc) -Wl,-rpath,"$libdir" -o "$work/pc_cc"
"$work/pc_c"
"$work/pc_cc"

if [ -x "$work/prefix/bin/mhc" ]; then
  echo "-- the command"
  "$work/prefix/bin/mhc" --version
fi

if [ -e "$libdir/libmhc.so" ]; then
  echo "-- by dlopen"
  # shellcheck disable=SC2046
  "$cc" -std=gnu11 -Wall -Wextra -Werror "$source/plugin.c" $(pkg-config --cflags mhc) -ldl -o "$work/plugin"
  MHC_NUM_THREADS=4 "$work/plugin" "$libdir/libmhc.so"

  # What a shared library shows is its ABI: nothing but the C interface.
  extra=$(nm -D --defined-only "$libdir/libmhc.so" | awk '$2 !~ /[VWu]/ && $3 !~ /^mhc_/ {print $3}')
  if [ -n "$extra" ]; then
    printf -- 'exported beside mhc_*:\n%s\n' "$extra"
    exit 1
  fi
fi
