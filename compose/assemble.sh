#!/bin/sh
# Puts everything that the image holds below a folder: a Java runtime with the modules that are needed and no other, the
# jars, and the arguments to start them. The Dockerfile runs this, and so does a test, which then runs what it made.
#
#   compose/assemble.sh FOLDER      after `mvn package`; JAVA_HOME names the JDK 25 whose jlink is taken
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
target=${1:?usage: compose/assemble.sh FOLDER}
home=$target/opt/millrace

if [ -e "$home" ]; then
    echo "assemble: $home: expected nothing there, got something; give an empty folder" >&2
    exit 1
fi
jar=
for candidate in "$root"/streams/target/streams-*.jar; do
    case $candidate in
        *-tests.jar | *-sources.jar | *-javadoc.jar) ;;
        *) jar=$candidate ;;
    esac
done
if [ ! -f "$jar" ] || [ ! -d "$root/streams/target/lib" ]; then
    echo "assemble: $root/streams/target: expected the service's jar and lib, got none; run mvn package first" >&2
    exit 1
fi

mkdir -p "$home/lib" "$target/var/lib/millrace"

# java.desktop: bean properties, which a library of the broker reads. jdk.incubator.vector: the kernels.
"${JAVA_HOME:?expected the folder of a JDK 25}/bin/jlink" \
    --add-modules java.base,java.desktop,java.instrument,java.logging,java.management,java.naming,java.net.http,java.security.jgss,java.security.sasl,java.sql,jdk.httpserver,jdk.incubator.vector,jdk.localedata,jdk.management,jdk.naming.dns,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs \
    --include-locales=en --strip-debug --no-header-files --no-man-pages --compress=zip-6 --output "$home/jre"

cp "$jar" "$home/lib/streams.jar"
cp "$root"/streams/target/lib/*.jar "$home/lib/"
cp "$root/LICENSE" "$home/"

# The flags of ./millrace, for java's own argument files: no shell stands between the container and the JVM.
cat >"$home/java.args" <<'ARGS'
--add-modules jdk.incubator.vector
--enable-native-access=ALL-UNNAMED
--sun-misc-unsafe-memory-access=allow
-XX:+UseSerialGC
-XX:+ExitOnOutOfMemoryError
-Dstdout.encoding=UTF-8
-Dstderr.encoding=UTF-8
-Xlog:disable
-Xlog:all=warning:stderr
-cp /opt/millrace/lib/streams.jar:/opt/millrace/lib/*
ARGS
chmod -R a+rX,go-w "$target"
