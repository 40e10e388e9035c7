/// The kernels of a CPU: operations cut into units, units run by a team of threads, inner loops given by a backend.
@NullMarked
package millrace.engine.kernel.cpu;

import org.jspecify.annotations.NullMarked;
