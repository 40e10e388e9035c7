/// The demonstration: a whole service in one process, asked real questions and audited from outside.
@NullMarked
package millrace.streams.demo;

import org.jspecify.annotations.NullMarked;
