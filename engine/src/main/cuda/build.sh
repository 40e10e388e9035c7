#!/bin/sh
# Builds the CUDA kernels: build.sh SOURCES OUTPUT, or build.sh --ptx to write the committed millrace.ptx anew.
#
# Writes to OUTPUT/millrace/engine/kernel/cuda:
#   millrace.ptx         for sm_80, in a PTX version that drivers from 525 on accept: compiled here where nvcc is, else
#                        the committed file
#   millrace.fatbin      that PTX and code for sm_90; only where nvcc is
#   libcuda-standin.so   the kernels and a CUDA driver for this machine's processor; only where a C++ compiler is
#
# What is up to date stays. NVCC and CXX name compilers to be used before nvcc, c++, g++ and clang++. A spill or a stack
# frame fails the build, unless the kernel is exported by GPU_EXPORT_COLD.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
ptx_version=8.0
nvcc_flags="-std=c++17 -O3 -fmad=false -Werror all-warnings --ptx"
cxx_flags="-std=c++17 -O3 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-exceptions
    -Wall -Wextra -Werror -Wno-unknown-pragmas"

# ---- one source, called by ourselves in parallel: what it is made of stands in a stamp beside it

# shellcheck disable=SC2086 # lists of words
if [ "$1" = --one ]; then
    compiler=$2 kind=$3 source=$4 object=$5 stamp=$6
    [ -f "$object" ] && [ "$(cat "$object.stamp" 2>/dev/null)" = "$stamp" ] && exit 0
    rm -f "$object.stamp"
    # From here, so that no path of this machine gets into the results.
    cd "$here"
    case $kind in
        sm_*) "$compiler" $nvcc_flags -arch="$kind" -I. -o "$object" "${source#"$here"/}" ;;
        *) "$compiler" $cxx_flags $kind -I. -x c++ -c -o "$object" "${source#"$here"/}" ;;
    esac
    printf '%s\n' "$stamp" >"$object.stamp"
    exit 0
fi

note() { printf 'CUDA kernels: %s\n' "$*"; }

fail() {
    note "$*" >&2
    exit 1
}

find_tool() {
    for tool in "$@"; do
        if [ -n "$tool" ] && command -v "$tool" >/dev/null 2>&1; then
            command -v "$tool"
            return
        fi
    done
}

# The SHA-256 of files, each after its name, however their lines end.
digest() {
    for file in "$@"; do
        basename "$file"
        tr -d '\r' <"$file"
    done | sha256sum | cut -d ' ' -f 1
}

jobs=$(nproc 2>/dev/null || echo 2)

# Every source by --one: COMPILER KIND FOLDER SUFFIX STAMP SOURCE...
each() {
    each_compiler=$1 each_kind=$2 each_folder=$3 each_suffix=$4 each_stamp=$5
    shift 5
    mkdir -p "$each_folder"
    for source in "$@"; do
        printf '%s\0%s\0%s\0' "$source" "$each_folder/$(basename "$source").$each_suffix" "$each_stamp $(digest "$source")"
    done | COMPILER=$each_compiler KIND=$each_kind SELF=$0 xargs -0 -n 3 -P "$jobs" \
        sh -c 'sh "$SELF" --one "$COMPILER" "$KIND" "$@"' sh || fail "a source does not compile"
}

# ---- PTX

# One module of many: the header once, what several files declare alike once, no comments.
merge() { # target, files
    merge_target=$1
    shift
    printf '.version %s\n.target %s\n.address_size 64\n' "$ptx_version" "$merge_target"
    awk '
        /^[ \t]*\/\// || /^[ \t]*$/ || /^\.(version|target|address_size)/ { next }
        /^\.(extern )?\.?shared/ || /^\.extern \.shared/ { if (seen[$0]++) next }
        { print }
    ' "$@"
}

# No kernel may put registers into memory, but those that are exported as cold.
check_resources() { # report, cold kernels
    awk -v cold=" $2 " '
        /Function properties for/ { name = $NF }
        /bytes stack frame/ && ($1 > 0 || $5 > 0 || $9 > 0) && !index(cold, " " name " ") { print "  " name ": " $0; bad = 1 }
        END { exit bad }
    ' "$1"
}

build_image() { # nvcc, work, folder
    nvcc=$1 work=$2 folder=$3
    ptxas=$(find_tool "$(dirname "$nvcc")/ptxas" ptxas)
    fatbinary=$(find_tool "$(dirname "$nvcc")/fatbinary" fatbinary)
    version=$("$nvcc" --version | tail -n 1)
    stamp="$version $(digest "$here"/*.h "$0")"
    for arch in sm_80 sm_90; do
        each "$nvcc" $arch "$work/ptx" $arch.ptx "$stamp" "$here"/*.cu
        # Only what belongs to a source that is still there.
        set --
        for source in "$here"/*.cu; do
            set -- "$@" "$work/ptx/$(basename "$source").$arch.ptx"
        done
        merge $arch "$@" >"$work/$arch.ptx"
    done
    cold=$(sed -n 's/^ *GPU_EXPORT_COLD(\([A-Za-z0-9_]*\)).*/\1/p' "$here"/*.cu | tr '\n' ' ')
    # The assembler of the toolkit checks that the lowered version has all that the code uses.
    for arch in sm_80 sm_90; do
        "$ptxas" -v -arch=$arch -o "$work/$arch.cubin" "$work/$arch.ptx" >"$work/$arch.log" 2>&1 &
        eval "${arch}_pid=$!"
    done
    for arch in sm_80 sm_90; do
        eval "wait \$${arch}_pid" || { cat "$work/$arch.log" >&2; fail "$ptxas does not take the PTX of $arch"; }
        check_resources "$work/$arch.log" "$cold" || fail "registers of the kernels above went to memory ($arch)"
    done
    mkdir -p "$folder"
    { printf '// SHA-256 of the sources: %s\n' "$(source_digest)"; cat "$work/sm_80.ptx"; } >"$work/millrace.ptx"
    "$fatbinary" -64 --compress-mode=none --create="$work/millrace.fatbin" \
        --image3=kind=ptx,sm=80,file="$work/millrace.ptx" --image3=kind=elf,sm=90,file="$work/sm_90.cubin"
    cp "$work/millrace.ptx" "$work/millrace.fatbin" "$folder"
}

source_digest() { digest "$here"/*.h "$here"/*.cu; }

# ---- the stand-in

build_standin() { # c++, work, folder
    cxx=$1 work=$2 folder=$3
    case $(uname -m) in
        x86_64 | amd64) machine=-march=x86-64-v3 ;;
        *) machine=-DCUDASIM_PORTABLE ;;
    esac
    stamp="$("$cxx" --version | head -n 1) $(digest "$here"/*.h "$here"/emulator/*.h "$0")"
    each "$cxx" "$machine" "$work/standin" o "$stamp" "$here"/*.cu "$here"/emulator/*.cpp
    set --
    for source in "$here"/*.cu "$here"/emulator/*.cpp; do
        set -- "$@" "$work/standin/$(basename "$source").o"
    done
    mkdir -p "$folder"
    # The name is the one that JCuda looks for.
    "$cxx" -shared -Wl,-soname,libcuda.so.1 -Wl,-z,noexecstack -Wl,-z,defs -o "$work/libcuda-standin.so" "$@" -lpthread
    cp "$work/libcuda-standin.so" "$folder"
}

# ---- what is asked for

nvcc=$(find_tool "${NVCC:-}" nvcc /usr/local/cuda/bin/nvcc)

if [ "$1" = --ptx ]; then
    [ -n "$nvcc" ] || fail "millrace.ptx is compiled by nvcc, which is not here"
    mkdir -p "$here/../../../target/cuda"
    work=$(cd "$here/../../../target/cuda" && pwd)
    build_image "$nvcc" "$work" "$work/image"
    cp "$work/image/millrace.ptx" "$here/millrace.ptx"
    note "wrote millrace.ptx of $(source_digest)"
    exit 0
fi

output=$2
[ "$(cd "$1" && pwd)" = "$here" ] || fail "the sources are beside this script"
folder=$output/millrace/engine/kernel/cuda
mkdir -p "$folder" "$output/../cuda"
folder=$(cd "$folder" && pwd)
work=$(cd "$output/../cuda" && pwd)

# Both in one: what the results depend on.
state() { # results
    digest "$here"/*.h "$here"/*.cu "$here"/emulator/*.h "$here"/emulator/*.cpp "$here"/build.sh "$here"/millrace.ptx
    printf '%s\n' "nvcc: $nvcc, c++: $cxx"
    (cd "$folder" && sha256sum "$@" 2>/dev/null)
}

cxx=$(find_tool "${CXX:-}" c++ g++ clang++)
results="millrace.ptx millrace.fatbin libcuda-standin.so"
# shellcheck disable=SC2086 # a list of words
[ "$(state $results)" = "$(cat "$work/state" 2>/dev/null)" ] && exit 0

rm -f "$work/state"
if [ -n "$nvcc" ]; then
    build_image "$nvcc" "$work" "$folder"
else
    note "no nvcc; the committed PTX serves"
    cp "$here/millrace.ptx" "$folder"
    rm -f "$folder/millrace.fatbin"
fi
if [ -n "$cxx" ] && [ "$(uname -s)" = Linux ]; then
    build_standin "$cxx" "$work" "$folder"
else
    note "no C++ compiler for Linux; the stand-in is left out, and the tests that need it are skipped"
    rm -f "$folder/libcuda-standin.so"
fi
# shellcheck disable=SC2086
state $results >"$work/state"
