/// The inner loops in C, called through the foreign-function API, where a library for this machine is in the jar.
///
/// The sources are in `engine/src/main/c`; `millrace.h` there says how to add a kernel. Everything here also exists in
/// Java: a machine without the library is slower and computes the same bits.
@NullMarked
package millrace.engine.kernel.ffi;

import org.jspecify.annotations.NullMarked;
