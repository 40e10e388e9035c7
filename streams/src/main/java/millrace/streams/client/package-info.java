/// A client for programs in Java: sends a prompt, shows its text while it is generated, and takes the attested completion.
///
/// It is an ordinary Kafka client and nothing more: a producer, a consumer without a group, the schema registry. What it does can
/// be done in any language, see docs/clients.md.
@NullMarked
package millrace.streams.client;

import org.jspecify.annotations.NullMarked;
