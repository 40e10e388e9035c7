/// What the service tells of itself over HTTP: probes, metrics, and a read-only console whose page checks the audit log by
/// itself. Knows the log's formats and the meters, and nothing of the service: facts are handed in.
@NullMarked
package millrace.streams.console;

import org.jspecify.annotations.NullMarked;
