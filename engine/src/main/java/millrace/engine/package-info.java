/// The door of the engine: all that a caller ever sees.
///
/// ```
///  GenerationRequest ──prepare──▶ PreparedPrompt ──submit──▶ SCHEDULER ──StepPlan──▶ TRANSFORMER ──logits──▶ SAMPLER
///                                                               ▲  │                      │                    │
///                                                               │  KV PAGES            KERNELS                 │
///                                                               └──────────────── token ◀──────────────────────┘
/// ```
///
/// A completion is a pure function of (model, prompt, sampling, seed): never of the batch, the number of threads, the
/// chunking of the prefill, or the backend.
@NullMarked
package millrace.engine;

import org.jspecify.annotations.NullMarked;
