/// What goes to a machine with a GPU and nothing else: one archive that brings its own Java, and the checks that it runs
/// there.
@NullMarked
package millrace.streams.gpu;

import org.jspecify.annotations.NullMarked;
