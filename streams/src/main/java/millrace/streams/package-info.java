/// The service: prompts in, completions and attestations out, in one transaction.
///
/// ```
/// prompts ══▶ INFERENCE (intake, pending store, engine) ──batches of outcomes──▶ ATTEST (tlog store) ══▶ completions
///                  │    ▲                                                             │              ══▶ audit
///            submit│    │results, wake-up                                             └─every second─▶ checkpoints
///                  ▼    │                                                             └─undecodable──▶ dead letters
///                  engine
/// ```
@NullMarked
package millrace.streams;

import org.jspecify.annotations.NullMarked;
