package millrace.engine.guide;

import millrace.engine.tokenizer.Reasoning;

/// What a completion as a whole looks like; it is in nothing else.
sealed interface Whole extends Rule permits DocumentRule, CallsRule {
    /// @param reasoning what the completion begins with
    Place start(Reasoning reasoning);

    @Override
    default Place start(int depthLeft) {
        return start(Reasoning.NONE);
    }
}
