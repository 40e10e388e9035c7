package millrace.streams;

import java.util.Map;
import java.util.Set;
import millrace.engine.Device;
import millrace.engine.Trace;
import millrace.schemas.AttestationRecord;
import millrace.schemas.ComputeDevice;
import org.jspecify.annotations.Nullable;

/// How far the logits of two profiles may lie apart, as docs/numerics.md has it: what a replay across profiles allows.
///
/// @param share the most that one logit may differ by, as a share of the largest magnitude of its step's logits
record Tolerance(double share) {
    /// Orders of summation whose results were compared with one another; of others nothing is known.
    private static final Set<String> COMPARED = Set.of("cpu-strict/v3", "cuda-mma/v1");

    /// By KV format. Where keys and values are rounded to codes, a sum that differs in its last bit may take another code. Where
    /// index keys are, a row may then attend to another position, for which there is no bound: those formats are not here.
    private static final Map<String, Tolerance> SHARES = Map.of(
            "f32", new Tolerance(0x1p-15),
            "f32 index f32", new Tolerance(0x1p-15),
            "bf16", new Tolerance(0x1p-9),
            "int8", new Tolerance(0x1p-7),
            "int4", new Tolerance(0x1p-7),
            "fp8", new Tolerance(0x1p-7),
            "fp8-plain", new Tolerance(0x1p-7));

    /// Between what was attested and an engine of another profile or on other hardware; null if it is not known.
    static @Nullable Tolerance between(AttestationRecord attested, String profile) {
        boolean known = COMPARED.contains(attested.getProfile()) && COMPARED.contains(profile);
        return known ? SHARES.get(attested.getKvFormat()) : null;
    }

    /// Whether an engine gives the bits that were attested: the same orders, and where they leave something to the device,
    /// the same kind of device.
    static boolean sameBits(AttestationRecord attested, String profile, Device device) {
        ComputeDevice then = attested.getDevice();
        if (!attested.getProfile().equals(profile) || then == null != device.isProcessor()) {
            return false;
        }
        return then == null || then.getStandin() == device.standIn() && then.getCapability().equals(device.capability());
    }

    /// The largest gap of a near tie: two logits that each moved by what one may.
    double most(Trace.Departure departure) {
        return 2 * share * departure.scale();
    }
}
