/// Measurements of the service and the engine, for `millrace bench`. Each reports its spread and checks its own result.
@NullMarked
package millrace.streams.bench;

import org.jspecify.annotations.NullMarked;
