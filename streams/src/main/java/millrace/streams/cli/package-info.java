/// The command line: one class per command, each a thin door to the module that does the work.
@NullMarked
package millrace.streams.cli;

import org.jspecify.annotations.NullMarked;
