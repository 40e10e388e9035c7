package millrace.integrity.audit;

import java.util.List;
import millrace.integrity.NoteVerifier;

/// Whose cosignatures a log must have.
///
/// @param topic where cosigned checkpoints are: signed notes in UTF-8, keyed by origin
/// @param keys of the witnesses
/// @param quorum how many of them must have cosigned a log, at least 1
public record WitnessPolicy(String topic, List<NoteVerifier> keys, int quorum) {
    public WitnessPolicy {
        keys = List.copyOf(keys);
    }
}
