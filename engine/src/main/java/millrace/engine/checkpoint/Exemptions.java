package millrace.engine.checkpoint;

import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import millrace.engine.InvalidModelException;
import millrace.engine.weights.BudgetedText;
import millrace.engine.weights.Text;

/// The modules that a quantiser left alone, as a checkpoint lists them.
///
/// @param names of modules
/// @param parts whether a name may also be a part of a module's path: an ancestor, or the last steps
/// @param expressions regular expressions for the beginning of a module's name
public record Exemptions(Set<String> names, boolean parts, List<Pattern> expressions) {
    public static final Exemptions NONE = new Exemptions(Set.of(), false, List.of());
    /// Characters that an expression may look at for one name: a thousand times what sane ones need.
    private static final int MAX_LOOKS = 1_000_000;

    public Exemptions {
        names = Set.copyOf(names);
        expressions = List.copyOf(expressions);
    }

    /// @throws InvalidModelException `CONFIG_QUANTIZATION` if an expression takes too long
    boolean has(String module) {
        return names.contains(module)
                || parts && hasPart(module)
                || expressions.stream().anyMatch(expression -> begins(module, expression));
    }

    private boolean hasPart(String module) {
        for (int from = 0; from >= 0; from = next(module, from)) {
            for (int to = from; to >= 0; ) {
                to = module.indexOf('.', to + 1);
                if (names.contains(to < 0 ? module.substring(from) : module.substring(from, to))) {
                    return true;
                }
            }
        }
        return false;
    }

    private static int next(String module, int from) {
        int dot = module.indexOf('.', from);
        return dot < 0 ? -1 : dot + 1;
    }

    private static boolean begins(String module, Pattern expression) {
        var text = new BudgetedText(module, MAX_LOOKS, () -> new InvalidModelException(
                "CONFIG_QUANTIZATION",
                "config.json: quantization_config: expected expressions that are soon decided, got "
                        + Text.quote(expression.pattern()) + ", which takes too long on " + Text.quote(module)
                        + "; use a plain list of names"));
        return expression.matcher(text).lookingAt();
    }
}
