package millrace.streams.gateway;

import java.io.IOException;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.streams.client.ClientException;
import millrace.streams.client.MillraceClient;
import millrace.streams.client.PendingAnswer;
import millrace.streams.client.SendOptions;
import millrace.streams.openai.Answers;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Bodies;
import millrace.streams.openai.InferenceRequest;
import org.jspecify.annotations.Nullable;

/// Answers requests for completions: sends their prompts, waits, and says what came.
final class Inference {
    private final MillraceClient client;
    private final GatewayConfig config;
    private final ModelNames models;
    private final GatewayMetrics metrics;
    private final SecureRandom random = new SecureRandom();

    Inference(MillraceClient client, GatewayConfig config, ModelNames models, GatewayMetrics metrics) {
        this.client = client;
        this.config = config;
        this.models = models;
        this.metrics = metrics;
    }

    /// A request that has been read.
    ///
    /// @param text whether it is a text completion and no conversation
    record Asked(String id, boolean text, InferenceRequest request, @Nullable String tenant, Map<String, String> trace, long createdSeconds) {}

    void answer(Http http, boolean text, @Nullable String tenant) throws IOException {
        var json = http.json(config.maxBodyBytes());
        InferenceRequest request = text ? Bodies.text(json) : Bodies.chat(json);
        byte[] bytes = new byte[12];
        random.nextBytes(bytes);
        String id = (text ? "cmpl-" : "chatcmpl-") + HexFormat.of().formatHex(bytes);
        http.responseHeader("x-request-id", id);
        Asked asked = new Asked(id, text, request, tenant, http.trace(), System.currentTimeMillis() / 1_000);
        if (request.stream()) {
            new Streaming(this, asked, metrics).answer(http);
        } else {
            whole(http, asked);
        }
    }

    private void whole(Http http, Asked asked) throws IOException {
        List<PendingAnswer> pending = new ArrayList<>();
        List<Completion> completions = new ArrayList<>();
        try {
            send(asked, pending, options -> options);
            long until = System.nanoTime() + patience().toNanos();
            for (PendingAnswer answer : pending) {
                completions.add(good(await(answer, until)));
            }
        } catch (ApiException e) {
            cancel(pending);
            throw e;
        }
        completions.forEach(completion -> http.responseHeader(Audit.HEADER, Audit.value(completion.getAudit())));
        http.json(200, asked.text() ? Answers.text(asked.id(), asked.createdSeconds(), completions)
                : Answers.chat(asked.id(), asked.createdSeconds(), completions));
    }

    /// Options of the next prompt.
    interface Options {
        SendOptions of(SendOptions plain);
    }

    /// Sends the prompts of a request. All have one key, so that they meet in the instance that has their prompt in its cache.
    ///
    /// @param pending gets them one by one, so that they can be cancelled if a later one fails
    void send(Asked asked, List<PendingAnswer> pending, Options options) {
        long deadline = System.currentTimeMillis() + config.timeout().toMillis();
        String session = asked.request().sessionId();
        SendOptions plain = SendOptions.DEFAULT.withTimeout(patience()).withKey(session == null ? asked.id() : session);
        for (Map.Entry<String, String> header : asked.trace().entrySet()) {
            plain = plain.withHeader(header.getKey(), header.getValue());
        }
        try {
            for (Prompt prompt : asked.request().prompts(asked.id(), asked.tenant(), deadline, asked.request().stream())) {
                pending.add(client.send(prompt, options.of(plain)));
            }
        } catch (ClientException e) {
            throw notConnected(e);
        }
    }

    /// How long the service's answer is awaited: longer than its deadline, so that it can say that the time is over.
    Duration patience() {
        return config.timeout().plus(config.grace());
    }

    private static Completion await(PendingAnswer answer, long untilNanos) {
        try {
            return answer.completion().get(Math.max(1, untilNanos - System.nanoTime()), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            throw failed(e.getCause());
        } catch (TimeoutException e) {
            throw timeout();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw ApiException.server(503, "shutting_down", "the gateway is being stopped; try another or again");
        }
    }

    /// The completion, if it is an answer.
    Completion good(Completion completion) {
        models.learn(completion.getModel());
        ApiException error = Answers.error(completion);
        if (error != null) {
            throw error;
        }
        return completion;
    }

    String model(InferenceRequest request) {
        return request.model() == null ? models.any() : request.model();
    }

    /// What went wrong on the way.
    static ApiException failed(@Nullable Throwable e) {
        Throwable cause = e instanceof CompletionException && e.getCause() != null ? e.getCause() : e;
        return switch (cause) {
            case ApiException known -> known;
            case ClientException known -> known.code().equals("CLIENT_TIMEOUT") ? timeout() : notConnected(known);
            case null, default -> ApiException.server(500, "internal_error", "the gateway failed; see its log");
        };
    }

    private static ApiException timeout() {
        return ApiException.server(504, "timeout", "no answer came in time; is the service running?");
    }

    private static ApiException notConnected(ClientException e) {
        return new ApiException(503, "server_error", "not_connected", null,
                "the cluster did not take the prompt (" + e.code() + "); try again", 1_000);
    }

    /// Asks the service to end what nobody waits for any more.
    void cancel(List<PendingAnswer> pending) {
        for (PendingAnswer answer : pending) {
            if (!answer.completion().isDone()) {
                metrics.cancelled();
                answer.cancel();
            }
        }
    }
}
