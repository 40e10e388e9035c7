package millrace.streams;

import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import org.jspecify.annotations.Nullable;

/// What a client writes to the cancels topic, under the key of the prompt.
public final class Cancellation {
    private Cancellation() {}

    /// @param tenant that of the prompt, null where it gave none
    /// @param nowMs milliseconds since the epoch
    public static Control of(@Nullable String tenant, String requestId, long nowMs) {
        return Control.newBuilder()
                .setKind(ControlKind.CANCEL).setTenant(tenant).setRequestId(requestId).setIssuedMs(nowMs).build();
    }
}
