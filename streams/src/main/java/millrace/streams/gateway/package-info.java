/// The OpenAI interface over HTTP: a client of the topics like any other, in a process of its own.
///
/// ```
///  POST /v1/chat/completions ─▶ KEYS ─▶ BODY ─▶ prompts ═══▶ service ═══▶ completions ─▶ answer, audit position in a header
///                                              with stream: deltas ─▶ CHOICE STREAMS ─▶ events, closed by what is attested
///  POST /v1/files, /v1/batches ─▶ FILES, BATCHES ─▶ millrace.streams.batch
/// ```
@NullMarked
package millrace.streams.gateway;

import org.jspecify.annotations.NullMarked;
