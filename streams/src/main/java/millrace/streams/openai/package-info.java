/// The words of the OpenAI interface: bodies of requests to prompts, completions to bodies of answers. What cannot be
/// honoured is refused by name. The gateway and the batches share it; it knows no topic and no connection.
@NullMarked
package millrace.streams.openai;

import org.jspecify.annotations.NullMarked;
