#!/bin/sh
# Compiles the kernel library for this machine: build.sh SOURCES OUTPUT
#
# Writes OUTPUT/native/linux-x86_64/libmillrace.so and its SHA-256. Does nothing where the result is newer than all
# sources, and nothing but a note where there is no compiler or no kernels for the platform: everything also runs on
# the Java kernels. CC names a compiler to be used before cc and gcc.
set -eu

sources=$1
output=$2

note() {
    printf 'native kernels: %s; the Java kernels serve\n' "$*"
    exit 0
}

case $(uname -s)-$(uname -m) in
    Linux-x86_64 | Linux-amd64) platform=linux-x86_64 ;;
    *) note "none for $(uname -s) on $(uname -m)" ;;
esac

folder=$output/native/$platform
library=$folder/libmillrace.so
# Folders count too: a deleted source shows in its folder.
if [ -f "$library.sha256" ] && [ -z "$(find "$sources" -newer "$library.sha256" | head -n 1)" ]; then
    exit 0
fi

cc=
for candidate in "${CC:-}" cc gcc clang; do
    if [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1; then
        cc=$candidate
        break
    fi
done
[ -n "$cc" ] || note "no C compiler found"

# No libc: the library must load beside any. No contraction: a multiplication and an addition are two roundings.
flags="-std=gnu11 -O3 -ffp-contract=off -fno-math-errno -fPIC -fvisibility=hidden -ffreestanding -fno-stack-protector
    -fno-asynchronous-unwind-tables -Wall -Wextra"
avx2="-mavx2 -mfma -mpopcnt -mbmi -DMILLRACE_ISA=avx2"
avx512="-mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mpopcnt -mbmi -mprefer-vector-width=512 -DMILLRACE_ISA=avx512"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2086 # lists of words
echo '#include <immintrin.h>' | "$cc" $flags $avx512 -mavx512vbmi -mavx512vnni -x c -c -o "$work/probe.o" - 2>/dev/null \
    || note "$cc does not know AVX-512"

objects=
compile() { # source, suffix of the object, flags
    source=$1
    object=$work/$(basename "$source" .c)$2.o
    shift 2
    # shellcheck disable=SC2086 # a list of words
    "$cc" $flags "$@" -c -o "$object" "$source"
    objects="$objects $object"
}

for source in "$sources"/*.c; do
    case $source in
        */cpu.c) compile "$source" "" ;;
        *)
            # shellcheck disable=SC2086 # lists of words
            compile "$source" _avx2 $avx2
            # shellcheck disable=SC2086
            compile "$source" _avx512 $avx512
            # Only these have use for more.
            case $source in
                *_int8.c)
                    # shellcheck disable=SC2086
                    compile "$source" _avx512vnni $avx512 -mavx512vnni -UMILLRACE_ISA -DMILLRACE_ISA=avx512vnni
                    ;;
            esac
            ;;
    esac
done

mkdir -p "$folder"
rm -f "$library.sha256"
# shellcheck disable=SC2086 # a list of words
"$cc" -shared -nostdlib -s -Wl,-z,noexecstack -o "$work/libmillrace.so" $objects -lgcc
cp "$work/libmillrace.so" "$library"
sha256sum <"$library" | cut -d ' ' -f 1 >"$work/sha256"
cp "$work/sha256" "$library.sha256"
