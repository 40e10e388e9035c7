package millrace.engine.guide;

/// What a shape is made of: rules, or other shapes.
sealed interface Part permits Rule, Shape {}
