package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import millrace.schemas.Completion;
import millrace.schemas.Delta;
import millrace.streams.client.DeltaListener;
import millrace.streams.client.PendingAnswer;
import millrace.streams.openai.ApiException;
import org.jspecify.annotations.Nullable;

/// One streamed answer: previews as they come, then what is attested.
final class Streaming {
    /// Until then a refusal can still be an HTTP status; after it the client is told that it is waiting.
    private static final Duration FIRST = Duration.ofSeconds(2);
    /// Between signs of life; one that cannot be sent says that the client is gone.
    private static final Duration HEARTBEAT = Duration.ofSeconds(1);

    /// What the clients' threads tell the one that writes.
    private sealed interface Event {
        record Preview(int index, Delta delta) implements Event {}

        record Restart(int index) implements Event {}

        record Gap(int index) implements Event {}

        record End(int index, @Nullable Completion completion, @Nullable Throwable problem) implements Event {}
    }

    private final Inference inference;
    private final Inference.Asked asked;
    private final GatewayMetrics metrics;
    private final LinkedBlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final long begunNanos = System.nanoTime();
    private boolean first = true;

    Streaming(Inference inference, Inference.Asked asked, GatewayMetrics metrics) {
        this.inference = inference;
        this.asked = asked;
        this.metrics = metrics;
    }

    /// @throws ApiException while it can still be a status of its own
    /// @throws IOException when the client is gone; its prompts are then cancelled
    void answer(Http http) throws IOException {
        List<PendingAnswer> pending = new ArrayList<>();
        try {
            inference.send(asked, pending, plain -> plain.withListener(listener(pending.size())));
            for (int i = 0; i < pending.size(); i++) {
                int index = i;
                pending.get(i).completion().whenComplete((completion, problem) -> events.add(new Event.End(index, completion, problem)));
            }
            Event begin = next(FIRST);
            if (begin instanceof Event.End end) {
                // A refusal comes at once, and as a status.
                good(end);
            }
            write(http.events(), begin);
        } finally {
            inference.cancel(pending);
        }
    }

    private DeltaListener listener(int index) {
        return new DeltaListener() {
            @Override
            public void onDelta(Delta delta) {
                events.add(new Event.Preview(index, delta));
            }

            @Override
            public void onRestart() {
                events.add(new Event.Restart(index));
            }

            @Override
            public void onGap(long count) {
                events.add(new Event.Gap(index));
            }
        };
    }

    private @Nullable Event next(Duration wait) {
        try {
            return events.poll(wait.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw ApiException.server(503, "shutting_down", "the gateway is being stopped; try another or again");
        }
    }

    private Completion good(Event.End end) {
        if (end.completion() == null) {
            throw Inference.failed(end.problem());
        }
        return inference.good(end.completion());
    }

    private void write(EventStream out, @Nullable Event begin) throws IOException {
        int n = asked.request().n();
        Chunks chunks = new Chunks(asked.id(), asked.text(), asked.createdSeconds(), inference.model(asked.request()),
                asked.request().includeUsage());
        ChoiceStream[] choices = new ChoiceStream[n];
        @Nullable Completion[] ended = new Completion[n];
        for (int i = 0; i < n; i++) {
            choices[i] = new ChoiceStream(asked.text());
            if (!asked.text()) {
                out.data(chunks.role(i));
            }
        }
        try {
            Event event = begin;
            int open = n;
            while (open > 0) {
                switch (event) {
                    case Event.Preview(int index, Delta delta) -> more(out, chunks, index, choices[index].preview(delta));
                    case Event.Restart(int index) -> choices[index].restart();
                    case Event.Gap(int index) -> choices[index].gap();
                    case Event.End end -> {
                        ended[end.index()] = finish(out, chunks, choices[end.index()], end);
                        open--;
                    }
                    case null -> out.comment("waiting");
                }
                event = open > 0 ? next(HEARTBEAT) : null;
            }
            close(out, chunks, Arrays.stream(ended).map(Objects::requireNonNull).toList());
        } catch (ApiException e) {
            // The status is long gone: an event says it, and no [DONE] follows.
            metrics.streamFailed();
            out.data(e.toJson());
        }
    }

    private void more(EventStream out, Chunks chunks, int index, List<ObjectNode> deltas) throws IOException {
        for (ObjectNode delta : deltas) {
            if (first) {
                first = false;
                metrics.firstToken(System.nanoTime() - begunNanos);
            }
            out.data(chunks.more(index, delta));
        }
    }

    private Completion finish(EventStream out, Chunks chunks, ChoiceStream choice, Event.End end) throws IOException {
        Completion completion = good(end);
        if (!choice.agrees(completion)) {
            throw ApiException.server(500, "preview_mismatch", "the attested answer differs from the previews that were sent: take nothing of"
                    + " this stream for an answer, and ask again");
        }
        more(out, chunks, end.index(), choice.rest(completion));
        out.data(chunks.finish(end.index(), completion));
        return completion;
    }

    private void close(EventStream out, Chunks chunks, List<Completion> completions) throws IOException {
        if (asked.request().includeUsage()) {
            out.data(chunks.usage(completions));
        }
        for (Completion completion : completions) {
            out.comment(Audit.HEADER + " " + Audit.value(completion.getAudit()));
        }
        out.done();
    }
}
