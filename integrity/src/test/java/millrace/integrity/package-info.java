/// Tests of what is claimed.
@NullMarked
package millrace.integrity;

import org.jspecify.annotations.NullMarked;
