/// What is claimed, and how to check it.
///
/// A [Commitment] hides the prompt and the completion and still binds them. A [Leaf] is the exact bytes of one
/// attestation record and their hash. A [MerkleFrontier] is the append-only tree over the leaves, kept as at most 63
/// hashes; [TreeState] is what a writer stores of it. A [Checkpoint] names the tree's size and root, a [SignedNote]
/// carries it under a [NoteKey]'s signature. [LogVerifier] reads leaves and checkpoints and finds the first violation.
///
/// The package does no input and output but reading and creating a key file. Bytes are documented in
/// docs/audit-format.md, and the tests read their vectors from that page.
@NullMarked
package millrace.integrity;

import org.jspecify.annotations.NullMarked;
