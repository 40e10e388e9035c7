package millrace.engine;

import java.util.Objects;
import millrace.engine.resident.Damage;
import millrace.engine.resident.Region;

/// Damages resident weights of an engine that serves, and checks them at a moment of one's choice: for tests of what
/// stands around an engine.
public final class DamagedWeights {
    private DamagedWeights() {}

    /// Turns the sign of many numbers of the tensor whose name ends so: answers change, and none is given up for its numbers.
    public static void ruin(Engine engine, String name) {
        Region region = guard(engine).regions().stream().filter(each -> each.name().endsWith(name)).findFirst().orElseThrow();
        for (long bit = 15; bit < Math.min(8 * region.bytes(), 16 * 40_000); bit += 32) {
            Damage.flip(region, bit);
        }
    }

    /// Checks block after block until one is found damaged.
    ///
    /// @return whether all were as they should be
    public static boolean scrub(Engine engine) {
        WeightGuard guard = guard(engine);
        for (int block = 0; block < guard.count(); block++) {
            if (!guard.check(block)) {
                return false;
            }
        }
        guard.passed();
        return true;
    }

    private static WeightGuard guard(Engine engine) {
        return Objects.requireNonNull(engine.guard(), "weights are watched");
    }
}
