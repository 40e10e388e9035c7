package millrace.engine.guide;

import java.util.List;

/// JSON without a schema. Its states and masks are the same for every document that has a part like this.
final class AnyJson {
    /// Any value.
    static final Shape VALUE = new Shape("any value");

    static final ObjectRule OBJECT = new ObjectRule(List.of(), List.of(), new boolean[0], VALUE, VALUE, true);
    static final ArrayRule ARRAY = new ArrayRule(List.of(), VALUE, 0, ArrayRule.UNBOUNDED, true);

    /// A document of one object.
    static final DocumentRule DOCUMENT;

    static {
        VALUE.parts.addAll(
                List.of(StringRule.ANY, NumberRule.ANY, OBJECT, ARRAY, LiteralRule.BOOLEAN, LiteralRule.NULL));
        VALUE.flatten();
        OBJECT.deepen();
        ARRAY.deepen();
        VALUE.measure();
        OBJECT.settle();
        ARRAY.settle();
        Shape root = Shape.of("an object", OBJECT);
        root.flatten();
        root.measure();
        DOCUMENT = new DocumentRule(root, true);
    }

    private AnyJson() {}
}
