package millrace.streams.client;

import java.util.concurrent.CompletableFuture;
import millrace.schemas.Completion;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.jspecify.annotations.Nullable;

/// A prompt that was sent and whose completion is awaited.
public interface PendingAnswer {
    String requestId();

    @Nullable String tenant();

    /// Where the prompt's record stands, once the cluster has it.
    CompletableFuture<RecordMetadata> sent();

    /// The committed, attested answer: also a rejection or a failure, as its finish reason says. Fails with a [ClientException].
    /// Cancelling this future only ends the waiting; see [#cancel].
    CompletableFuture<Completion> completion();

    /// Asks the service to end the generation. The completion then comes with finish reason `cancelled` and what was generated so
    /// far, unless it had ended before.
    ///
    /// @return done when the cluster has the order
    CompletableFuture<Void> cancel();
}
