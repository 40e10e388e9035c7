/// How weights lie in memory: number formats, and panels of 16 rows in each of them. Depends on nothing.
@NullMarked
package millrace.engine.format;

import org.jspecify.annotations.NullMarked;
