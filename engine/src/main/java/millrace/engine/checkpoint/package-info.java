/// Linear layers as checkpoints store them: plain, quantised by others, or in this engine's own packed form; and how
/// they become matrices.
@NullMarked
package millrace.engine.checkpoint;

import org.jspecify.annotations.NullMarked;
