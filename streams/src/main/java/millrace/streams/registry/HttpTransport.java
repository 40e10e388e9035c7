package millrace.streams.registry;

import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.util.Locale;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLContext;
import millrace.streams.registry.server.SchemaTexts;
import org.jspecify.annotations.Nullable;

/// Requests over HTTP: URLs in turn, retries with a growing wait, no redirects, answers of at most 4 MiB.
///
/// The HTTP client is built at the first request, as its start takes longer than a request does.
final class HttpTransport implements RegistryTransport {
    private static final long MAX_BODY = 4L << 20;
    private static final String TYPES = "application/vnd.schemaregistry.v1+json, "
            + "application/vnd.schemaregistry+json; q=0.9, application/json; q=0.5";

    private final RegistryConfig config;
    private final Object lock = new Object();
    private @Nullable HttpClient client;
    private boolean closed;
    private volatile int preferred;

    HttpTransport(RegistryConfig config) {
        this.config = config;
    }

    @Override
    public String address() {
        return config.urls().get(preferred).toString();
    }

    @Override
    public Reply send(String method, String path, byte @Nullable [] body) {
        RegistryException last = null;
        for (int round = 0; round <= config.maxRetries(); round++) {
            if (round > 0) {
                pause(round);
            }
            for (int i = 0; i < config.urls().size(); i++) {
                int index = (preferred + (i == 0 ? 0 : 1)) % config.urls().size();
                preferred = index;
                try {
                    return once(config.urls().get(index), method, path, body);
                } catch (RegistryException e) {
                    if (!isWorthAnotherTry(e)) {
                        throw e;
                    }
                    last = e;
                }
            }
        }
        throw Objects.requireNonNull(last);
    }

    private static boolean isWorthAnotherTry(RegistryException e) {
        return switch (e.code()) {
            case "REGISTRY_UNREACHABLE", "REGISTRY_TIMEOUT", "REGISTRY_FAILED" -> true;
            default -> false;
        };
    }

    private Reply once(URI base, String method, String path, byte @Nullable [] body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path))
                .header("Accept", TYPES)
                .timeout(config.readTimeout())
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(body));
        if (body != null) {
            request.header("Content-Type", "application/vnd.schemaregistry.v1+json");
        }
        if (config.authorization() != null) {
            request.header("Authorization", config.authorization().value());
        }
        HttpResponse<byte[]> response = exchange(base, request.build());
        int status = response.statusCode();
        if (status >= 300 && status < 400) {
            throw new RegistryException("REGISTRY_REDIRECT", ("schema registry %s: expected an answer, got a redirect"
                    + " (HTTP %d), which is not followed; set schema.registry.url to where the registry is")
                            .formatted(base, status));
        }
        if (status == 408 || status == 429 || status >= 500) {
            throw new RegistryException("REGISTRY_FAILED", ("schema registry %s: expected an answer, got HTTP %d;"
                    + " look into the registry's log").formatted(base, status));
        }
        String type = response.headers().firstValue("Content-Type").orElse("");
        if (!type.toLowerCase(Locale.ROOT).contains("json")) {
            throw new RegistryException("REGISTRY_RESPONSE", ("schema registry %s: expected JSON, got HTTP %d with"
                    + " content type \"%s\"; is schema.registry.url that of a schema registry?")
                            .formatted(base, status, SchemaTexts.quote(type, 80)));
        }
        return new Reply(status, response.body());
    }

    /* The request's own timeout ends with the headers; the body must arrive in the same time. */
    private HttpResponse<byte[]> exchange(URI base, HttpRequest request) {
        CompletableFuture<HttpResponse<byte[]>> future =
                client().sendAsync(request, BodyHandlers.limiting(BodyHandlers.ofByteArray(), MAX_BODY));
        try {
            return future.get(config.readTimeout().toMillis(), TimeUnit.MILLISECONDS);
        } catch (TimeoutException e) {
            future.cancel(true);
            throw timeout(base, e);
        } catch (InterruptedException e) {
            future.cancel(true);
            Thread.currentThread().interrupt();
            throw new RegistryException("REGISTRY_UNREACHABLE",
                    "schema registry %s: interrupted while waiting for an answer".formatted(base), e);
        } catch (ExecutionException e) {
            throw failure(base, e.getCause() == null ? e : e.getCause());
        }
    }

    private RegistryException failure(URI base, Throwable cause) {
        if (cause instanceof HttpTimeoutException && !(cause instanceof HttpConnectTimeoutException)) {
            return timeout(base, cause);
        }
        if (isTooLong(cause)) {
            return new RegistryException("REGISTRY_RESPONSE", ("schema registry %s: expected an answer of at most %d"
                    + " bytes, got a longer one; is schema.registry.url that of a schema registry?")
                            .formatted(base, MAX_BODY), cause);
        }
        String what = cause instanceof ConnectException ? "no connection" : String.valueOf(cause.getMessage());
        String message = "schema registry %s: expected an answer, got none (%s: %s);"
                + " is it running, and is schema.registry.url right?";
        return new RegistryException("REGISTRY_UNREACHABLE",
                message.formatted(base, cause.getClass().getSimpleName(), SchemaTexts.quote(what, 200)), cause);
    }

    private static boolean isTooLong(Throwable cause) {
        return cause instanceof IOException
                && cause.getMessage() != null
                && cause.getMessage().contains("body exceeds capacity");
    }

    private RegistryException timeout(URI base, Throwable cause) {
        String message = "schema registry %s: expected an answer within %d ms, got none;"
                + " is it overloaded? (http.read.timeout.ms)";
        return new RegistryException(
                "REGISTRY_TIMEOUT", message.formatted(base, config.readTimeout().toMillis()), cause);
    }

    private void pause(int round) {
        long doubled = config.retryWait().toMillis() << Math.min(round - 1, 16);
        long wait = Math.min(config.retryMaxWait().toMillis(), doubled);
        try {
            // Half of it is random: many clients that lost one registry shall not come back at once.
            Thread.sleep(wait / 2 + ThreadLocalRandom.current().nextLong(wait / 2 + 1));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new RegistryException("REGISTRY_UNREACHABLE", "schema registry: interrupted before a retry", e);
        }
    }

    private HttpClient client() {
        synchronized (lock) {
            if (closed) {
                throw new RegistryException("REGISTRY_UNREACHABLE", "schema registry: the client is closed");
            }
            if (client == null) {
                HttpClient.Builder builder = HttpClient.newBuilder()
                        .version(HttpClient.Version.HTTP_1_1)
                        .followRedirects(HttpClient.Redirect.NEVER)
                        .connectTimeout(config.connectTimeout());
                SSLContext context = config.tls().context();
                if (context != null) {
                    builder.sslContext(context);
                }
                client = builder.build();
            }
            return client;
        }
    }

    @Override
    public void close() {
        synchronized (lock) {
            closed = true;
            if (client != null) {
                client.shutdownNow();
            }
        }
    }
}
