/// The seam between mathematics and machine: element types, and the operations that a backend implements.
@NullMarked
package millrace.engine.kernel;

import org.jspecify.annotations.NullMarked;
