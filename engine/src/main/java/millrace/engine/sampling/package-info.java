/// From logits to a token: a pure function of (logits, sampling, tokens so far, step).
@NullMarked
package millrace.engine.sampling;

import org.jspecify.annotations.NullMarked;
