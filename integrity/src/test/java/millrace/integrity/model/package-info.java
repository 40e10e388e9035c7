/// Tests of model signatures: bundles of every layout, refusals, fuzzing, bit flips.
@NullMarked
package millrace.integrity.model;

import org.jspecify.annotations.NullMarked;
