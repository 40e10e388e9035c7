/// Batch jobs over the topics: a file of requests in, a file of answers out, each line once.
///
/// ```
///  FILE ──copy──▶ input.jsonl ──SENDER──▶ prompts            one directory per batch, and everything that is known of
///                   │  sent.json: up to where, flushed       it lies there: a process that is killed and started again
///                   ▼                                        goes on from the last progress that is on the disk
///  completions ──COLLECTOR──▶ answers.jsonl, answers.idx
///                   │  collected.json: positions, lengths
///                   ▼
///                 WRITER ──▶ results and errors, in the order of the lines
/// ```
@NullMarked
package millrace.streams.batch;

import org.jspecify.annotations.NullMarked;
