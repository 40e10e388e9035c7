package millrace.engine.guide;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/// What a value may look like: one of some rules. Shapes may contain one another, since schemas refer to one another; linking
/// makes plain lists of rules of them.
final class Shape implements Part {
    /// Where it stands in the schema, for messages.
    final String where;

    final List<Part> parts = new ArrayList<>();

    /// The type was not written but follows from other keywords, which by the letter also allow all other types.
    boolean inferred;

    private List<Rule> rules = List.of();
    private int depth = Rule.NEVER;
    private boolean anyInferred;

    Shape(String where) {
        this.where = where;
    }

    /// A shape of one rule.
    static Shape of(String where, Part part) {
        Shape shape = new Shape(where);
        shape.parts.add(part);
        return shape;
    }

    /// The rules, once linked.
    List<Rule> rules() {
        return rules;
    }

    /// Containers, one within the other, of the flattest value; [Rule#NEVER] if there is none.
    int depth() {
        return depth;
    }

    /// Finds the depth anew.
    void measure() {
        depth = Rule.NEVER;
        for (Rule rule : rules) {
            depth = Math.min(depth, rule.depth());
        }
    }

    /// The largest depth of a rule that some value has.
    int need() {
        int most = 0;
        for (Rule rule : rules) {
            most = Math.max(most, rule.depth());
        }
        return most;
    }

    /// Whether a value may look so.
    boolean allows(Rule rule) {
        return rules.contains(rule);
    }

    /// Whether some rule's type was not written.
    boolean hasInferred() {
        return anyInferred;
    }

    /// Looks through the shapes inside.
    void flatten() {
        Set<Rule> found = new LinkedHashSet<>();
        Set<Shape> seen = new LinkedHashSet<>();
        Deque<Part> open = new ArrayDeque<>();
        open.push(this);
        while (!open.isEmpty()) {
            switch (open.pop()) {
                case Rule rule -> found.add(rule);
                case Shape shape -> {
                    if (seen.add(shape)) {
                        anyInferred |= shape.inferred;
                        // In order: the first part is looked at first.
                        for (int i = shape.parts.size() - 1; i >= 0; i--) {
                            open.push(shape.parts.get(i));
                        }
                    }
                }
            }
        }
        rules = joined(found);
    }

    /// With lengths of strings that overlap or meet put together: strings of one length then stand in one place.
    private static List<Rule> joined(Set<Rule> found) {
        List<StringRule> strings = new ArrayList<>();
        List<Rule> joined = new ArrayList<>();
        for (Rule rule : found) {
            if (rule instanceof StringRule string) {
                strings.add(string);
            } else {
                joined.add(rule);
            }
        }
        strings.sort(Comparator.comparingInt(StringRule::minLength));
        StringRule last = null;
        for (StringRule string : strings) {
            StringRule both = last == null ? null : last.joined(string);
            if (both == null && last != null) {
                joined.add(last);
            }
            last = both == null ? string : both;
        }
        if (last != null) {
            joined.add(last);
        }
        return List.copyOf(joined);
    }

    /// Leaves out what no value has that is nested as deep as values may be.
    void prune() {
        rules = rules.stream().filter(rule -> rule.depth() <= Guide.MAX_DEPTH).toList();
        measure();
    }
}
