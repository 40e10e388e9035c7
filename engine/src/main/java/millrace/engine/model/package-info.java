/// The mathematics of the supported families: a config normalised to records, the tensors that it asks for, and the
/// forward pass over them.
@NullMarked
package millrace.engine.model;

import org.jspecify.annotations.NullMarked;
