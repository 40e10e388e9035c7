package millrace.engine.guide;

import java.util.List;

/// JSON without a schema. Its states and masks are the same for every document that has a part like this.
final class AnyJson {
    /// Where a document ends by itself.
    static final AnyJson PLAIN = new AnyJson(false);

    /// Where the text around it ends it, see [Guard].
    static final AnyJson GUARDED = new AnyJson(true);

    /// A document of one object.
    static final DocumentRule DOCUMENT = document();

    /// Any value.
    final Shape value = new Shape("any value");

    final StringRule string;
    final ObjectRule object;
    final ArrayRule array;

    private AnyJson(boolean guarded) {
        string = new StringRule(0, StringRule.UNBOUNDED, guarded);
        object = new ObjectRule(List.of(), List.of(), new boolean[0], value, value, true, guarded);
        array = new ArrayRule(List.of(), value, 0, ArrayRule.UNBOUNDED, true);
        value.parts.addAll(List.of(string, NumberRule.ANY, object, array, LiteralRule.BOOLEAN, LiteralRule.NULL));
        value.flatten();
        object.deepen();
        array.deepen();
        value.measure();
        object.settle();
        array.settle();
    }

    private static DocumentRule document() {
        Shape root = Shape.of("an object", PLAIN.object);
        root.flatten();
        root.measure();
        return new DocumentRule(root, true);
    }

    /// The largest depth of a value of it.
    static int need() {
        return PLAIN.object.need();
    }
}
