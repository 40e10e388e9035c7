package millrace.integrity.audit;

import java.time.Duration;
import java.util.function.BooleanSupplier;
import millrace.integrity.FollowStateFile;
import millrace.integrity.Witness;
import org.jspecify.annotations.Nullable;

/// How to follow a log.
///
/// @param audit what to verify; its keys must not be empty
/// @param state what was seen before, and where what is seen is written down; null remembers nothing
/// @param witness cosigns what was found consistent; null for a monitor. It has the same state file
/// @param cosignatures the topic that cosignatures go to; null without a witness
/// @param run how long to follow; zero for one look, null until `stopped`
/// @param stopped asked between two rounds
public record FollowOptions(
        AuditOptions audit,
        @Nullable FollowStateFile state,
        @Nullable Witness witness,
        @Nullable CosignatureTopic cosignatures,
        @Nullable Duration run,
        BooleanSupplier stopped) {

    public FollowOptions {
        if (witness != null && (state == null || cosignatures == null)) {
            throw new IllegalArgumentException("follow: a witness needs a state file and a topic");
        }
    }
}
