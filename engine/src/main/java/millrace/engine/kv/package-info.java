/// The KV cache: pages of 16 tokens in memory outside the heap, handed out to sequences, shared by those
/// that begin alike, and taken back.
@NullMarked
package millrace.engine.kv;

import org.jspecify.annotations.NullMarked;
