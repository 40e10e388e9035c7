/// A measured load for fault drills: numbered prompts at a steady rate, and the proof that each was answered once.
@NullMarked
package millrace.streams.drill;

import org.jspecify.annotations.NullMarked;
