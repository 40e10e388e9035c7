/// The operations on a GPU of NVIDIA, through the driver API of JCuda; the only room that knows JCuda.
@NullMarked
package millrace.engine.kernel.cuda;

import org.jspecify.annotations.NullMarked;
