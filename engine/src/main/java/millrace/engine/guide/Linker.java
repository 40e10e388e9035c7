package millrace.engine.guide;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/// Makes lists of rules of shapes that contain one another, and leaves out what no value has that is nested as deep as values may
/// be: then whatever may begin can be finished.
final class Linker {
    private Linker() {}

    /// @throws millrace.engine.InvalidRequestException GUIDE_LIMIT, GUIDE_UNSATISFIABLE
    static void link(Shape root, Collection<Shape> shapes) {
        Set<Rule> rules = new LinkedHashSet<>();
        for (Shape shape : shapes) {
            shape.flatten();
            if (shape.rules().size() > SchemaReader.MAX_ALTERNATIVES) {
                throw Refusal.limit(shape.where, "at most " + SchemaReader.MAX_ALTERNATIVES + " alternatives of a value",
                        String.valueOf(shape.rules().size()), "describe fewer");
            }
            rules.addAll(shape.rules());
        }
        // Depths only fall; after n rounds those up to n are the least.
        boolean changed = true;
        for (int round = 0; changed && round <= Guide.MAX_DEPTH; round++) {
            shapes.forEach(Shape::measure);
            changed = false;
            for (Rule rule : rules) {
                changed |= deepen(rule);
            }
        }
        shapes.forEach(Shape::prune);
        if (root.depth() > Guide.MAX_DEPTH) {
            throw Refusal.unsatisfiable(root.where);
        }
        rules.forEach(Linker::settle);
    }

    /// The largest depth of a rule that is reached from a shape.
    static int need(Shape root) {
        int need = AnyJson.need();
        Set<Rule> seen = new LinkedHashSet<>();
        Deque<Shape> open = new ArrayDeque<>();
        open.add(root);
        for (Shape shape = open.poll(); shape != null; shape = open.poll()) {
            need = Math.max(need, shape.need());
            for (Rule rule : shape.rules()) {
                if (seen.add(rule)) {
                    open.addAll(inside(rule));
                }
            }
        }
        return need;
    }

    private static List<Shape> inside(Rule rule) {
        List<Shape> inside = new ArrayList<>();
        switch (rule) {
            case ObjectRule object -> {
                inside.addAll(object.values);
                if (object.others != null) {
                    inside.add(object.others);
                }
            }
            case ArrayRule array -> {
                inside.addAll(array.first);
                if (array.others != null) {
                    inside.add(array.others);
                }
            }
            default -> {}
        }
        return inside;
    }

    private static boolean deepen(Rule rule) {
        return switch (rule) {
            case ObjectRule object -> !object.shared() && object.deepen();
            case ArrayRule array -> !array.shared() && array.deepen();
            default -> false;
        };
    }

    private static void settle(Rule rule) {
        switch (rule) {
            case ObjectRule object when !object.shared() -> object.settle();
            case ArrayRule array when !array.shared() -> array.settle();
            default -> {}
        }
    }
}
