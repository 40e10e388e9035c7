package millrace.engine.guide;

import java.util.ArrayDeque;
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
        // Those that serve all schemas are measured already.
        List<ContainerRule> containers = rules.stream().filter(ContainerRule.class::isInstance).map(ContainerRule.class::cast)
                .filter(container -> !container.shared()).toList();
        // Depths only fall; after n rounds those up to n are the least.
        boolean changed = true;
        for (int round = 0; changed && round <= Guide.MAX_DEPTH; round++) {
            shapes.forEach(Shape::measure);
            changed = false;
            for (ContainerRule container : containers) {
                changed |= container.deepen();
            }
        }
        shapes.forEach(Shape::prune);
        if (root.depth() > Guide.MAX_DEPTH) {
            throw Refusal.unsatisfiable(root.where);
        }
        containers.forEach(ContainerRule::settle);
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
                    open.addAll(rule instanceof ContainerRule container ? container.inside() : List.of());
                }
            }
        }
        return need;
    }
}
