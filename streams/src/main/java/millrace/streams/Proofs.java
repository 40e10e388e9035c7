package millrace.streams;

import java.nio.ByteBuffer;
import java.util.List;
import millrace.engine.ActivationTop;
import millrace.engine.Transcript;
import millrace.integrity.ActivationProof;
import org.jspecify.annotations.Nullable;

/// Makes the activation proofs of an answer from what the engine has kept.
final class Proofs {
    private Proofs() {}

    /// @return the proofs of all runs of tokens after one another; null where the engine kept nothing
    static byte @Nullable [] of(Transcript transcript) {
        List<ActivationTop> runs = transcript.activations();
        if (runs.isEmpty()) {
            return null;
        }
        ByteBuffer proofs = ByteBuffer.allocate(runs.size() * ActivationProof.BYTES);
        for (ActivationTop run : runs) {
            proofs.put(ActivationProof.of(run.indices(), run.bits()).encode());
        }
        return proofs.array();
    }
}
