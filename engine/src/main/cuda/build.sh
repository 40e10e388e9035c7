#!/bin/sh
# Builds the CUDA kernels:
#
#   build.sh SOURCES OUTPUT        into OUTPUT/millrace/engine/kernel/cuda
#       millrace.ptx               for sm_80, in a PTX version that drivers from 525 on accept: compiled here where nvcc
#                                  is, else the committed file
#       millrace.fatbin            that PTX and code for sm_90; only where nvcc is
#       libcuda-standin.so         the kernels and a CUDA driver for this machine's processor; only where a C++ compiler is
#   build.sh --test TESTS OUTPUT   libcuda-planted.so there: the stand-in with the kernels of TESTS, each with its mistake
#   build.sh --ptx                 writes the committed millrace.ptx anew
#   build.sh --sanitize RECORDED   runs the launches that tests recorded in that folder again (MILLRACE_CUDASIM_RECORD),
#                                  under the address, the undefined-behaviour and the thread sanitizer
#   build.sh --uncovered           lists the lines of kernels that nothing has run since a stand-in was built with
#                                  MILLRACE_CUDA_COVERAGE=1, which needs g++ and its gcov
#
# NVCC and CXX name compilers to be used before nvcc, c++, g++ and clang++. What was compiled is kept under the digest of
# all that it is made of, in target/cuda or in the folder that MILLRACE_CUDA_CACHE names. A spill or a stack frame fails
# the build, unless the kernel is exported by GPU_EXPORT_COLD.
set -eu
export LC_ALL=C

here=$(cd "$(dirname "$0")" && pwd)
ptx_version=8.0
nvcc_flags="-std=c++17 -O3 -fmad=false -Werror all-warnings --ptx"
# Unrolled loops make the compiler see uninitialized values that are none.
cxx_flags="-std=c++17 -O3 -fPIC -fvisibility=hidden -ffp-contract=off -fno-math-errno -fno-exceptions
    -Wall -Wextra -Werror -Wno-unknown-pragmas -Wno-maybe-uninitialized"
case $(uname -m) in
    x86_64 | amd64) cxx_flags="$cxx_flags -march=x86-64-v3" ;;
esac

note() { printf 'CUDA kernels: %s\n' "$*"; }

fail() {
    note "$*" >&2
    exit 1
}

# ---- one source, by a call of this script in parallel to others. From its folder, so that no path gets into the result.

# shellcheck disable=SC2086 # lists of words
if [ "$1" = --one ]; then
    compiler=$2 kind=$3 source=$4 object=$5
    cd "$(dirname "$source")"
    temporary=$object.$$
    case $kind in
        sm_*) "$compiler" $nvcc_flags -arch="$kind" -I"$here" -o "$temporary" "$(basename "$source")" ;;
        *) "$compiler" $cxx_flags ${EXTRA:-} "-fmacro-prefix-map=$here/=" -I"$here" -x c++ -c -o "$temporary" "$(basename "$source")" ;;
    esac
    mv "$temporary" "$object"
    exit 0
fi

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
        printf '%s\n' "${file##*/}"
        tr -d '\r' <"$file"
    done | sha256sum | cut -d ' ' -f 1
}

source_digest() { digest "$here"/*.h "$here"/*.cu; }

# A source and the files of ours that it includes.
with_includes() {
    awk -v here="$here" -v root="$1" '
        function exists(f,   line) { ok = (getline line < f) >= 0; close(f); return ok }
        function visit(f,   line, folder, name) {
            if (f in seen) return
            seen[f] = 1
            print f
            folder = f
            sub(/[^\/]*$/, "", folder)
            while ((getline line < f) > 0) {
                if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
                    split(line, quoted, "\"")
                    name = quoted[2]
                    queue[++last] = exists(folder name) ? folder name : here "/" name
                }
            }
            close(f)
        }
        BEGIN {
            queue[++last] = root
            while (first < last) visit(queue[++first])
        }'
}

jobs=$(nproc 2>/dev/null || echo 2)

# Compiles what is not there yet: COMPILER KIND SUFFIX STAMP SOURCE..., and leaves the list of results in $objects.
compile_all() {
    compile_compiler=$1 compile_kind=$2 compile_suffix=$3 compile_stamp=$4
    shift 4
    objects=
    todo=$work/todo.$$
    : >"$todo"
    for source in "$@"; do
        case $compile_kind in
            sm_*) parts=$(with_includes "$source" | grep -v /emulator/) ;;
            *) parts=$(with_includes "$source") ;;
        esac
        # shellcheck disable=SC2086 # a list of files; our folders have no blanks in their names
        key=$(printf '%s %s %s %s' "$compile_stamp ${EXTRA:-}" "$compile_kind" "${source#"$here"/}" "$(digest $parts)" | sha256sum | cut -c 1-32)
        object=$cache/$key.$compile_suffix
        objects="$objects $object"
        [ -f "$object" ] || printf '%s\0%s\0' "$source" "$object" >>"$todo"
    done
    COMPILER=$compile_compiler KIND=$compile_kind SELF=$here/build.sh xargs -0 -r -n 2 -P "$jobs" \
        sh -c 'sh "$SELF" --one "$COMPILER" "$KIND" "$@"' sh <"$todo" || fail "a source does not compile"
    rm -f "$todo"
}

# ---- the image

# One module of many: the header once, what several files declare alike once, no comments.
merge() { # target, files
    printf '.version %s\n.target %s\n.address_size 64\n' "$ptx_version" "$1"
    shift
    awk '
        /^[ \t]*\/\// || /^[ \t]*$/ || /^\.(version|target|address_size)/ { next }
        /^\.(extern )?\.?shared/ { if (seen[$0]++) next }
        { print }
    ' "$@"
}

# The assembler of the toolkit checks that the lowered version has all that the code uses, and reports registers. No
# kernel may put some of them into memory, but those that are exported as cold.
assemble() { # PTX file, arch: leaves the result in $cubin
    cubin=$cache/$(printf '%s %s %s' "$stamp" "$2" "$(digest "$1")" | sha256sum | cut -c 1-32).cubin
    [ -f "$cubin" ] && return
    "$ptxas" -v -arch="$2" -o "$cubin.$$" "$1" >"$work/$2.log" 2>&1 || {
        cat "$work/$2.log" >&2
        fail "$ptxas does not take the PTX of $2"
    }
    awk -v cold=" $cold " '
        /Function properties for/ { name = $NF }
        /bytes stack frame/ && ($1 > 0 || $5 > 0 || $9 > 0) && !index(cold, " " name " ") { print "  " name ": " $0; bad = 1 }
        END { exit bad }
    ' "$work/$2.log" >&2 || fail "registers of the kernels above went to memory ($2)"
    mv "$cubin.$$" "$cubin"
}

build_image() { # folder
    ptxas=$(find_tool "$(dirname "$nvcc")/ptxas" ptxas)
    fatbinary=$(find_tool "$(dirname "$nvcc")/fatbinary" fatbinary)
    [ -n "$ptxas" ] && [ -n "$fatbinary" ] || fail "$nvcc is here, but not its ptxas and fatbinary"
    stamp="$("$nvcc" --version | tail -n 1) $nvcc_flags $ptx_version"
    cold=$(sed -n 's/^ *GPU_EXPORT_COLD(\([A-Za-z0-9_]*\)).*/\1/p' "$here"/*.cu | tr '\n' ' ')
    compile_all "$nvcc" sm_80 ptx "$stamp" "$here"/*.cu
    # shellcheck disable=SC2086 # lists of files
    merge sm_80 $objects >"$work/sm_80.ptx"
    # Most sources know nothing of architectures, and one compilation serves both.
    newer=
    for source in "$here"/*.cu; do
        # shellcheck disable=SC2046 # a list of files
        if grep -q -e GPU_HAS_BULK -e __CUDA_ARCH__ $(with_includes "$source" | grep -v -e /emulator/ -e /port.h); then
            compile_all "$nvcc" sm_90 ptx "$stamp" "$source"
        else
            compile_all "$nvcc" sm_80 ptx "$stamp" "$source"
        fi
        newer="$newer $objects"
    done
    # shellcheck disable=SC2086
    merge sm_90 $newer >"$work/sm_90.ptx"
    (assemble "$work/sm_80.ptx" sm_80) &
    older=$!
    assemble "$work/sm_90.ptx" sm_90
    wait $older || exit 1
    { printf '// SHA-256 of the sources: %s\n' "$(source_digest)"; cat "$work/sm_80.ptx"; } >"$work/millrace.ptx"
    "$fatbinary" -64 --compress-mode=none --create="$work/millrace.fatbin" \
        --image3=kind=ptx,sm=80,file="$work/millrace.ptx" --image3=kind=elf,sm=90,file="$cubin"
    mkdir -p "$1"
    cp "$work/millrace.ptx" "$work/millrace.fatbin" "$1"
}

# ---- the library

# The name inside is the one that JCuda looks for.
build_library() { # file, its name inside, sources
    library=$1 name=$2
    shift 2
    EXTRA=$counting compile_all "$cxx" c++ o "$("$cxx" --version | head -n 1) $cxx_flags" "$@" "$here"/emulator/*.cpp
    [ -z "$counting" ] || printf '%s\n' $objects >"$work/counted"
    # shellcheck disable=SC2086 # lists of words
    "$cxx" -shared $counting "-Wl,-soname,$name" -Wl,-z,noexecstack -Wl,-z,defs -o "$work/library.$$" $objects -lpthread
    mkdir -p "$(dirname "$library")"
    mv "$work/library.$$" "$library"
}

# ---- coverage

# A line counts as run if it was in any of the sources that include it, in any instance of a template.
uncovered() {
    [ -s "$work/counted" ] || fail "no stand-in was built with MILLRACE_CUDA_COVERAGE=1"
    while read -r object; do
        # The compiler names its notes after the temporary name of the object.
        (cd "$here" && gcov --stdout "$object.gcda" 2>/dev/null)
    done <"$work/counted" | awk -F: '
        $2 + 0 == 0 && $3 == "Source" { source = $4; kernels = source !~ /emulator|^\// ; next }
        !kernels || NF < 3 || $2 !~ /^ *[0-9]+$/ { next }
        { count = $1; gsub(/[ *]/, "", count); line = source ":" $2 + 0 }
        count ~ /^[0-9]/ { run[line] = 1 }
        count ~ /^#/ { text = $0; sub(/^[^:]*:[^:]*:/, "", text); idle[line] = text }
        END { for (line in idle) if (!(line in run)) print line ":" idle[line]; for (line in run) n++; print n " lines were run" > "/dev/stderr" }
    ' | sort -t : -k 1,1 -k 2,2n
}

# ---- sanitizers

replay_program() { # its name, flags of kernels, flags of all
    program=$work/sanitize/$1 stamp="$("$cxx" --version | head -n 1) $cxx_flags"
    # The emulator tells the thread sanitizer about its fibers, and is not watched itself.
    EXTRA="$3" compile_all_of_the_emulator
    EXTRA="$2 $3" compile_all "$cxx" c++ o "$stamp" "$here"/*.cu "$here"/../../test/cuda/*.cu
    # shellcheck disable=SC2086 # lists of words
    "$cxx" $2 $3 -o "$program" $objects $emulator -lpthread
}

compile_all_of_the_emulator() {
    compile_all "$cxx" c++ o "$stamp" "$here"/emulator/*.cpp "$here"/../../test/sanitize/replay.cpp
    emulator=$objects
}

# A program that says nothing about kernels with mistakes says nothing about the others.
must_find() { # program, kernel, words
    "$1" --planted "$2" >"$work/sanitize/planted.log" 2>&1 || true
    grep -q "$3" "$work/sanitize/planted.log" || fail "$1 does not find the mistake of $2"
}

sanitize() { # folder of recorded launches
    [ -n "$cxx" ] || fail "no C++ compiler"
    ls "$1"/*.launch >/dev/null 2>&1 || fail "$1 has no recorded launches: run the tests with MILLRACE_CUDASIM_RECORD=$1"
    mkdir -p "$work/sanitize"
    replay_program address "" "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined -DCUDASIM_SANITIZED"
    replay_program thread "-fsanitize=thread" "-O1 -g -DCUDASIM_SANITIZED -DCUDASIM_TSAN"
    export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=halt_on_error=0:exitcode=66
    must_find "$work/sanitize/address" planted_out_of_bounds "heap-buffer-overflow.*"
    must_find "$work/sanitize/thread" planted_no_barrier "data race.*"
    for program in address thread; do
        note "$program sanitizer: $(ls "$1"/*.launch | wc -l) launches of $(ls "$1"/*.launch | sed 's/.*[0-9]-//' | sort -u | wc -l) kernels"
        # In pieces, so that one report does not end all.
        find "$1" -name '*.launch' | sort | xargs -n 32 "$work/sanitize/$program" >"$work/sanitize/$program.log" 2>&1 || {
            head -n 60 "$work/sanitize/$program.log" >&2
            fail "the $program sanitizer found something; all of it is in $work/sanitize/$program.log"
        }
    done
    note "the sanitizers found nothing"
}

# ---- what is asked for

nvcc=$(find_tool "${NVCC:-}" nvcc /usr/local/cuda/bin/nvcc)
cxx=$(find_tool "${CXX:-}" c++ g++ clang++)
[ "$(uname -s)" = Linux ] || cxx=

mkdir -p "$here/../../../target/cuda"
work=$(cd "$here/../../../target/cuda" && pwd)
cache=${MILLRACE_CUDA_CACHE:-$work/cache}
mkdir -p "$cache"

counting=
[ -z "${MILLRACE_CUDA_COVERAGE:-}" ] || counting="--coverage -O1"

if [ "$1" = --uncovered ]; then
    uncovered
    exit 0
fi

if [ "$1" = --ptx ]; then
    [ -n "$nvcc" ] || fail "millrace.ptx is compiled by nvcc, which is not here"
    build_image "$work/image"
    cp "$work/image/millrace.ptx" "$here/millrace.ptx"
    note "wrote millrace.ptx of $(source_digest)"
    exit 0
fi

case $1 in
    --sanitize) output=$work/sanitize ;;
    --test) output=$3 ;;
    *) output=$2 ;;
esac
folder=$output/millrace/engine/kernel/cuda
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

if [ "$1" = --test ]; then
    [ -n "$cxx" ] || exit 0
    tests=$(cd "$2" && pwd)
    state=$(digest "$tests"/* "$here"/*.h "$here"/emulator/* "$here/build.sh")
    [ -f "$folder/libcuda-planted.so" ] && [ "$state" = "$(cat "$work/test.state" 2>/dev/null)" ] && exit 0
    build_library "$folder/libcuda-planted.so" libcuda-planted.so "$tests"/*.cu "$tests"/*.cpp
    printf '%s\n' "$state" >"$work/test.state"
    exit 0
fi

if [ "$1" = --sanitize ]; then
    sanitize "$2"
    exit 0
fi

# What the results are made of, and the results.
state() {
    digest "$here"/*.h "$here"/*.cu "$here"/emulator/* "$here/build.sh" "$here/millrace.ptx"
    printf '%s\n' "nvcc: $nvcc, c++: $cxx $counting"
    (cd "$folder" && sha256sum millrace.ptx millrace.fatbin libcuda-standin.so 2>/dev/null)
}
[ "$(state)" = "$(cat "$work/main.state" 2>/dev/null)" ] && exit 0

rm -f "$work/main.state"
if [ -n "$nvcc" ]; then
    build_image "$folder"
else
    note "no nvcc; the committed PTX serves"
    cp "$here/millrace.ptx" "$folder"
    rm -f "$folder/millrace.fatbin"
fi
if [ -n "$cxx" ]; then
    build_library "$folder/libcuda-standin.so" libcuda.so.1 "$here"/*.cu
else
    note "no C++ compiler for Linux; the stand-in is left out, and the tests that need it are skipped"
    rm -f "$folder/libcuda-standin.so"
fi
state >"$work/main.state"
