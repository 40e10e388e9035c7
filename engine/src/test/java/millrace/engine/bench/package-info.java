/// Measurements, run by hand; nothing here asserts a time.
@NullMarked
package millrace.engine.bench;

import org.jspecify.annotations.NullMarked;
