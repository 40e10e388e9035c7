package millrace.streams.client;

import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.function.Function;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.jspecify.annotations.Nullable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/// One prompt that waits for its completion, and what its listener has heard so far.
final class Request implements PendingAnswer {
    private static final Logger LOG = LoggerFactory.getLogger(Request.class);

    /// What a request is recognized by.
    record Name(@Nullable String tenant, String id) {}

    private final Name name;
    private final byte[] key;
    private final Mailbox mailbox;
    private final CompletableFuture<RecordMetadata> sent = new CompletableFuture<>();
    private final CompletableFuture<Completion> completion = new CompletableFuture<>();
    private final Function<Request, CompletableFuture<Void>> canceller;
    private final PreviewOrder previews = new PreviewOrder();
    private @Nullable DeltaListener listener;
    private volatile @Nullable Future<?> alarm;

    Request(
            Name name,
            byte[] key,
            @Nullable DeltaListener listener,
            Executor executor,
            Function<Request, CompletableFuture<Void>> canceller) {
        this.name = name;
        this.key = key;
        this.listener = listener;
        this.mailbox = new Mailbox(executor);
        this.canceller = canceller;
    }

    Name name() {
        return name;
    }

    byte[] key() {
        return key;
    }

    ByteBuffer keyBuffer() {
        return ByteBuffer.wrap(key);
    }

    /// What ends the waiting when its time has come; cancelled once the wait is over.
    void alarm(Future<?> alarm) {
        this.alarm = alarm;
        if (completion.isDone()) {
            alarm.cancel(false);
        }
    }

    void over() {
        Future<?> set = alarm;
        if (set != null) {
            set.cancel(false);
        }
    }

    void complete(Completion answer) {
        mailbox.put(() -> completion.complete(answer));
    }

    void fail(ClientException why) {
        mailbox.put(() -> {
            sent.completeExceptionally(why);
            completion.completeExceptionally(why);
        });
    }

    void preview(Delta delta) {
        mailbox.put(() -> hear(delta));
    }

    /// Runs in the mailbox, so one at a time and in order.
    private void hear(Delta delta) {
        DeltaListener to = listener;
        if (to == null || completion.isDone()) {
            return;
        }
        try {
            previews.take(delta, to);
        } catch (RuntimeException e) {
            listener = null;
            LOG.warn("the listener of a request failed and hears nothing more: {}", e.getClass().getName());
        }
    }

    @Override
    public String requestId() {
        return name.id();
    }

    @Override
    public @Nullable String tenant() {
        return name.tenant();
    }

    @Override
    public CompletableFuture<RecordMetadata> sent() {
        return sent;
    }

    @Override
    public CompletableFuture<Completion> completion() {
        return completion;
    }

    @Override
    public CompletableFuture<Void> cancel() {
        return canceller.apply(this);
    }
}
