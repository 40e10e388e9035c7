/// Tests of the auditor's program, as far as it needs no cluster.
@NullMarked
package millrace.integrity.audit;

import org.jspecify.annotations.NullMarked;
