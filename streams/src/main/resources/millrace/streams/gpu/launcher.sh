#!/bin/sh
# Runs the checks of this folder with the Java that it brings.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P)
# shellcheck disable=SC2086 # a list of words
exec "$here/runtime/bin/java" -Dmillrace.bundle="$here" --add-modules jdk.incubator.vector \
    --enable-native-access=ALL-UNNAMED --sun-misc-unsafe-memory-access=allow -Xlog:disable -Xlog:all=warning:stderr \
    ${MILLRACE_JAVA_OPTS:-} -cp "$here/lib/*" millrace.streams.cli.GpuMain "$@"
