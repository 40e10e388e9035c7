/// The specification of the inner loops: plain Java, no cleverness.
@NullMarked
package millrace.engine.kernel.scalar;

import org.jspecify.annotations.NullMarked;
