/// The seam between mathematics and machine: element types, and the operations that a backend implements.
///
/// [Kernels] says what each operation computes and where its operands lie; [Backend] chooses who does it. What a backend
/// may keep in memory of its own is named by types of this package: activations by [Rows], the changing part of a step by
/// [StepInputs], the choice of experts by [Routing], weights by [Matrix] and [Experts], KV pages by addresses in a
/// [CacheMemory].
@NullMarked
package millrace.engine.kernel;

import org.jspecify.annotations.NullMarked;
