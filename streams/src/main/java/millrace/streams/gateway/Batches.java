package millrace.streams.gateway;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.streams.batch.BatchException;
import millrace.streams.batch.BatchStatus;
import millrace.streams.batch.BatchStore;
import millrace.streams.batch.BatchTopics;
import millrace.streams.batch.Endpoint;
import millrace.streams.batch.Manifest;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Fields;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// `/v1/files` and `/v1/batches`.
final class Batches implements AutoCloseable {
    private static final Pattern WINDOW = Pattern.compile("([1-9][0-9]{0,3})([mhd])");
    private static final Duration LONGEST = Duration.ofDays(6);
    private static final String OUTPUT = "-output";
    private static final String ERRORS = "-errors";

    private final GatewayConfig config;
    private final FileStore files;
    private final BatchStore store;
    private final BatchWorker worker;

    Batches(GatewayConfig config) throws IOException {
        this.config = config;
        files = new FileStore(config.directory().resolve("files"), config.maxFileBytes());
        store = new BatchStore(config.directory().resolve("batches"));
        worker = new BatchWorker(store, config.service());
    }

    /// What comes under `/v1/files`.
    void files(Http http, List<String> rest, @Nullable String tenant) throws IOException {
        String what = http.method() + " " + rest.size();
        switch (what) {
            case "POST 0" -> http.json(200, upload(http, tenant).toJson());
            case "GET 0" -> http.json(200, list(files.list(tenant).stream().map(FileStore.Stored::toJson).toList()));
            case "GET 1" -> http.json(200, file(rest.getFirst(), tenant));
            case "GET 2" -> {
                requireContent(rest);
                http.file(content(rest.getFirst(), tenant));
            }
            case "DELETE 1" -> {
                files.delete(files.find(rest.getFirst(), tenant));
                http.json(200, Json.object().put("id", rest.getFirst()).put("object", "file").put("deleted", true));
            }
            default -> throw notThere();
        }
    }

    private static void requireContent(List<String> rest) {
        if (!rest.get(1).equals("content")) {
            throw notThere();
        }
    }

    private static ApiException notThere() {
        return ApiException.notFound("unknown_url", null, "there is nothing at this path with this method");
    }

    private FileStore.Stored upload(Http http, @Nullable String tenant) throws IOException {
        Multipart parts = new Multipart(http.header("Content-Type"), http.body());
        FileStore.Stored stored = null;
        String purpose = null;
        try {
            for (Multipart.Part part = parts.next(); part != null; part = parts.next()) {
                switch (part.name()) {
                    case "purpose" -> purpose = part.text();
                    case "file" -> stored = files.put(part.content(), part.fileName() == null ? "file" : part.fileName(), tenant);
                    default -> throw ApiException.invalid("unknown_parameter", null, "expected the parts purpose and file, got another");
                }
            }
            if (!"batch".equals(purpose)) {
                throw ApiException.invalid("invalid_value", "purpose", "purpose: expected batch, got " + (purpose == null ? "none" : "another"));
            }
            if (stored == null) {
                throw ApiException.invalid("missing_required_parameter", "file", "file: expected a file, got none");
            }
            return stored;
        } catch (ApiException e) {
            if (stored != null) {
                files.delete(stored);
            }
            throw e;
        }
    }

    private ObjectNode file(String id, @Nullable String tenant) throws IOException {
        if (!isResult(id)) {
            return files.find(id, tenant).toJson();
        }
        Path content = content(id, tenant);
        return Json.object().put("id", id).put("object", "file").put("bytes", Files.size(content))
                .put("created_at", Files.getLastModifiedTime(content).toMillis() / 1_000).put("filename", id + ".jsonl")
                .put("purpose", "batch_output").put("status", "processed");
    }

    private static boolean isResult(String id) {
        return id.endsWith(OUTPUT) || id.endsWith(ERRORS);
    }

    private Path content(String id, @Nullable String tenant) throws IOException {
        if (!isResult(id) || !id.startsWith("file-")) {
            return files.find(id, tenant).content();
        }
        boolean errors = id.endsWith(ERRORS);
        Manifest batch = batch(id.substring("file-".length(), id.length() - (errors ? ERRORS : OUTPUT).length()), tenant);
        Path path = errors ? store.errors(batch) : store.results(batch);
        if (!Files.exists(path)) {
            throw ApiException.notFound("file_not_found", "id", "id: expected that of a file of yours, got another");
        }
        return path;
    }

    /// What comes under `/v1/batches`.
    void batches(Http http, List<String> rest, @Nullable String tenant) throws IOException {
        String what = http.method() + " " + rest.size();
        switch (what) {
            case "POST 0" -> http.json(200, toJson(create(http, tenant)));
            case "GET 0" -> http.json(200, list(store.list().reversed().stream()
                    .filter(batch -> Objects.equals(batch.tenant(), tenant)).map(this::toJson).toList()));
            case "GET 1" -> http.json(200, toJson(batch(rest.getFirst(), tenant)));
            case "POST 2" -> {
                if (!rest.get(1).equals("cancel")) {
                    throw notThere();
                }
                Manifest batch = batch(rest.getFirst(), tenant);
                if (store.ended(batch) == null) {
                    store.cancel(batch, System.currentTimeMillis());
                }
                http.json(200, toJson(batch));
            }
            default -> throw notThere();
        }
    }

    private Manifest batch(String id, @Nullable String tenant) {
        try {
            Manifest batch = store.find(id);
            if (Objects.equals(batch.tenant(), tenant)) {
                return batch;
            }
        } catch (BatchException e) {
            if (!e.code().equals("BATCH_UNKNOWN")) {
                throw e;
            }
        }
        throw ApiException.notFound("batch_not_found", "batch_id", "batch_id: expected that of a batch of yours, got another");
    }

    private Manifest create(Http http, @Nullable String tenant) throws IOException {
        Fields body = new Fields(http.json(config.maxBodyBytes()), "");
        String fileId = body.requiredText("input_file_id");
        String path = body.requiredText("endpoint");
        Duration window = window(body.requiredText("completion_window"));
        Map<String, String> metadata = metadata(body.object("metadata"));
        body.refuseTheRest();
        Endpoint endpoint;
        try {
            endpoint = Endpoint.of(path);
        } catch (BatchException e) {
            throw ApiException.invalid("invalid_value", "endpoint", "endpoint: expected " + Endpoint.CHAT.path() + " or "
                    + Endpoint.TEXT.path() + ", got another");
        }
        FileStore.Stored file = files.find(fileId, tenant);
        try (InputStream in = Files.newInputStream(file.content()); BatchTopics topics = new BatchTopics(config.service())) {
            BatchTopics.Start start = topics.start();
            BatchStore.Input input = store.copy(in, file.id());
            long now = System.currentTimeMillis();
            Manifest batch = store.create(input, tenant, endpoint, now, now + window.toMillis(), metadata, start);
            worker.add(batch);
            return batch;
        } catch (BatchException e) {
            throw ApiException.invalid("empty_file", "input_file_id", "input_file_id: expected a file with lines, got one without");
        }
    }

    private static Duration window(String text) {
        Matcher form = WINDOW.matcher(text);
        Duration span = !form.matches() ? Duration.ZERO : switch (form.group(2)) {
            case "m" -> Duration.ofMinutes(Long.parseLong(form.group(1)));
            case "h" -> Duration.ofHours(Long.parseLong(form.group(1)));
            default -> Duration.ofDays(Long.parseLong(form.group(1)));
        };
        if (span.isZero() || span.compareTo(LONGEST) > 0) {
            throw ApiException.invalid("invalid_value", "completion_window",
                    "completion_window: expected a span such as 30m, 24h or 2d, at most 6d, got another");
        }
        return span;
    }

    private static Map<String, String> metadata(@Nullable ObjectNode node) {
        Map<String, String> metadata = new LinkedHashMap<>();
        if (node != null) {
            for (Map.Entry<String, JsonNode> entry : node.properties()) {
                if (!entry.getValue().isTextual() || metadata.size() == 16 || entry.getKey().length() > 64
                        || entry.getValue().textValue().length() > 512) {
                    throw ApiException.invalid("invalid_value", "metadata",
                            "metadata: expected at most 16 strings of at most 512 characters, with names of at most 64, got others");
                }
                metadata.put(entry.getKey(), entry.getValue().textValue());
            }
        }
        return metadata;
    }

    private static ObjectNode list(List<ObjectNode> entries) {
        ObjectNode list = Json.object().put("object", "list");
        ArrayNode data = list.putArray("data");
        entries.forEach(data::add);
        return list.put("first_id", entries.isEmpty() ? null : entries.getFirst().path("id").asText())
                .put("last_id", entries.isEmpty() ? null : entries.getLast().path("id").asText()).put("has_more", false);
    }

    private ObjectNode toJson(Manifest batch) {
        boolean published = Files.exists(store.results(batch));
        BatchStatus ended = store.ended(batch);
        BatchStatus status = ended == null ? worker.status(batch) : ended;
        long cancelled = store.cancelledMs(batch);
        String word = ended != null ? (published ? ended.state().word() : "finalizing") : cancelled >= 0 ? "cancelling" : "in_progress";
        long created = batch.createdMs() / 1_000;
        ObjectNode node = Json.object().put("id", batch.id()).put("object", "batch").put("endpoint", batch.endpoint().path())
                .putNull("errors").put("input_file_id", batch.inputName())
                .put("completion_window", (batch.expiresMs() - batch.createdMs()) / 60_000 % 60 == 0
                        ? (batch.expiresMs() - batch.createdMs()) / 3_600_000 + "h" : (batch.expiresMs() - batch.createdMs()) / 60_000 + "m")
                .put("status", word)
                .put("output_file_id", published ? "file-" + batch.id() + OUTPUT : null)
                .put("error_file_id", published && status != null && status.failed() > 0 ? "file-" + batch.id() + ERRORS : null)
                .put("created_at", created).put("in_progress_at", created).put("expires_at", batch.expiresMs() / 1_000);
        if (ended != null) {
            node.put(ended.state().word() + "_at", ended.endedMs() / 1_000);
        }
        if (cancelled >= 0) {
            node.put("cancelling_at", cancelled / 1_000);
        }
        node.putObject("request_counts").put("total", batch.lines()).put("completed", status == null ? 0 : status.completed())
                .put("failed", status == null ? 0 : status.failed());
        ObjectNode metadata = node.putObject("metadata");
        batch.metadata().forEach(metadata::put);
        return node;
    }

    @Override
    public void close() {
        worker.close();
    }
}
