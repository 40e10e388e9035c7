package millrace.streams;

import java.util.concurrent.CompletableFuture;
import millrace.engine.TextEngine;
import org.jspecify.annotations.Nullable;

/// An instance of the service in this process, which serves until it is closed.
///
/// @param end what `run` came to: null after a stop, else what was fatal
record ServiceInstance(InferenceService service, CompletableFuture<@Nullable Throwable> end) implements AutoCloseable {
    static ServiceInstance start(ServiceConfig config, TextEngine engine) {
        InferenceService service = InferenceService.start(config, c -> engine, true, line -> {});
        CompletableFuture<@Nullable Throwable> end = new CompletableFuture<>();
        Thread.ofPlatform().daemon().start(() -> {
            try {
                end.complete(service.run());
            } catch (InterruptedException e) {
                end.completeExceptionally(e);
            }
        });
        return new ServiceInstance(service, end);
    }

    @Override
    public void close() {
        service.close();
    }
}
