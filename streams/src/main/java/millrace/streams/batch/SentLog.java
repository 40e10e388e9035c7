package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Json;

/// How far the input was read and its prompts acknowledged by the broker, on the disk. What lies behind may have been
/// sent or not: it is sent again under the same ids, and the service answers an id once.
final class SentLog implements AutoCloseable {
    private static final String PROGRESS = "sent.json";
    private static final String PARTS = "parts.bin";
    static final String REFUSED = "refused.jsonl";

    private final Path directory;
    private final Durable.Log partsLog;
    private final Durable.Log refusedLog;
    /// Parts of each line, at index line - 1; 0 for blank and refused ones.
    private byte[] parts;
    private int line;
    private long offset;
    private int refused;
    private long sent;
    private boolean complete;

    SentLog(Path directory) {
        this.directory = directory;
        ObjectNode progress = Durable.read(directory.resolve(PROGRESS));
        if (progress != null) {
            line = progress.path("line").asInt();
            offset = progress.path("offset").asLong();
            refused = progress.path("refused").asInt();
            sent = progress.path("sent").asLong();
            complete = progress.path("complete").asBoolean();
        }
        partsLog = new Durable.Log(directory.resolve(PARTS), line);
        refusedLog = new Durable.Log(directory.resolve(REFUSED), progress == null ? 0 : progress.path("refused_bytes").asLong());
        parts = line == 0 ? new byte[1 << 10] : Arrays.copyOf(partsLog.read(0, line), Math.max(line, 1 << 10));
    }

    /// The last line that was dealt with, and where the next begins.
    int line() {
        return line;
    }

    long offset() {
        return offset;
    }

    /// Lines that were refused before they were sent.
    int refused() {
        return refused;
    }

    /// Prompt events that were sent, those of all lines together.
    long sent() {
        return sent;
    }

    /// Whether the whole input was dealt with.
    boolean isComplete() {
        return complete;
    }

    /// Parts of a line that was dealt with; 0 if it was refused or blank.
    int parts(int number) {
        return number <= line ? parts[number - 1] : 0;
    }

    void accept(InputLines.Line next, int count) {
        if (next.number() > parts.length) {
            parts = Arrays.copyOf(parts, parts.length * 2);
        }
        parts[next.number() - 1] = (byte) count;
        partsLog.append(new byte[] {(byte) count});
        line = next.number();
        offset = next.end();
        sent += count;
    }

    void refuse(InputLines.Line next, String customId, ApiException why) {
        accept(next, 0);
        refused++;
        ObjectNode node = Json.object().put("line", next.number()).put("custom_id", customId);
        node.put("status", why.status()).setAll(why.toJson());
        refusedLog.append((Json.write(node) + "\n").getBytes(StandardCharsets.UTF_8));
    }

    /// Says on the disk what was done. Call it when the broker has acknowledged all of it.
    void save(boolean whole) {
        complete = whole;
        partsLog.sync();
        refusedLog.sync();
        Durable.replace(directory.resolve(PROGRESS), Json.object().put("line", line).put("offset", offset).put("refused", refused)
                .put("refused_bytes", refusedLog.length()).put("sent", sent).put("complete", complete));
    }

    @Override
    public void close() {
        partsLog.close();
        refusedLog.close();
    }
}
