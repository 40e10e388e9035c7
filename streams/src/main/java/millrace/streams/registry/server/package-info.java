/// What a schema registry does, without a server around it: subjects, versions, ids, compatibility, and the answers of
/// Confluent's REST interface. Used by the embedded registry and, in memory, by `mock://` URLs.
@NullMarked
package millrace.streams.registry.server;

import org.jspecify.annotations.NullMarked;
