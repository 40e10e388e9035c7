/// Continuous batching: which sequences share the next step, and what becomes of their tokens.
///
/// ```
///  submitted ──▶ WAITING ──admit──▶ RUNNING: prefill chunks, then one token a step ──▶ ended
///                   ▲                  │
///                   └────preempted─────┘  pages released, computed again later if the index lost them: same bits
/// ```
@NullMarked
package millrace.engine.batch;

import org.jspecify.annotations.NullMarked;
