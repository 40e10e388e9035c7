package millrace.streams.batch;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import millrace.schemas.Prompt;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.InferenceRequest;
import org.jspecify.annotations.Nullable;

/// Reads the input and sends its prompts, chunk by chunk: what the broker has acknowledged is written down before the
/// next is begun, so after a crash no more than one chunk is in doubt.
final class Sender {
    private static final int CHUNK_LINES = 250;
    /// Parts that a quota put off and that are sent again at once; the rest waits for the next turn.
    private static final int AGAIN_PARTS = 32;
    /// What JSON takes more than the record, and the line's frame.
    private static final int JSON_FACTOR = 2;

    private final Path input;
    private final Manifest manifest;
    private final BatchTopics topics;
    private final SentLog sent;
    private final AnswerLog answers;
    private final int maxInFlight;
    /// By line and part, when it may be sent again.
    private final Map<Long, Long> putOff = new TreeMap<>();
    private @Nullable LineReader reader;
    private @Nullable InputLines lines;
    private long @Nullable [] offsets;

    Sender(Path input, Manifest manifest, BatchTopics topics, SentLog sent, AnswerLog answers, int maxInFlight) {
        this.input = input;
        this.manifest = manifest;
        this.topics = topics;
        this.sent = sent;
        this.answers = answers;
        this.maxInFlight = maxInFlight;
    }

    /// The longest line that is read.
    static int mostLineBytes(int mostRecordBytes) {
        return mostRecordBytes <= Integer.MAX_VALUE / JSON_FACTOR ? mostRecordBytes * JSON_FACTOR : Integer.MAX_VALUE;
    }

    /// Whether as many prompts wait for answers as may.
    boolean isFull() {
        return sent.sent() - answers.answered() >= maxInFlight;
    }

    /// Deals with the next lines.
    ///
    /// @param over whether the batch has ended: lines are then read but not sent
    /// @return whether there was anything to do
    boolean send(boolean over) {
        if (sent.isComplete() || isFull() && !over) {
            return false;
        }
        InputLines from = lines == null ? open() : lines;
        lines = from;
        for (int i = 0; i < CHUNK_LINES && (over || !isFull()); i++) {
            InputLines.Line line = from.next();
            if (line == null) {
                topics.flush();
                sent.save(true);
                from.close();
                return true;
            }
            deal(line, over);
        }
        topics.flush();
        sent.save(false);
        return true;
    }

    /// Goes to the first line that was not dealt with. The ids of those before must be known, or a repeated one would pass.
    private InputLines open() {
        int most = mostLineBytes(topics.mostBytes());
        LineReader fresh = new LineReader(manifest.endpoint(), most);
        if (sent.line() > 0) {
            try (InputLines before = new InputLines(input, 0, 0, most)) {
                for (int i = 0; i < sent.line(); i++) {
                    InputLines.Line line = before.next();
                    if (line != null && !line.isBlank()) {
                        fresh.read(line);
                    }
                }
            }
        }
        reader = fresh;
        return new InputLines(input, sent.line(), sent.offset(), most);
    }

    private void deal(InputLines.Line line, boolean over) {
        LineReader with = reader;
        if (line.isBlank() || with == null) {
            sent.accept(line, 0);
            return;
        }
        LineReader.Parsed parsed = with.read(line);
        InferenceRequest request = parsed.request();
        if (request == null) {
            ApiException why = parsed.refusal();
            sent.refuse(line, parsed.customId(), why == null ? ApiException.server(500, "UNKNOWN", "no reason") : why);
            return;
        }
        List<Prompt> prompts = prompts(request, line.number());
        byte[] first = topics.encode(prompts.getFirst());
        if (first.length > topics.mostBytes()) {
            sent.refuse(line, parsed.customId(), ApiException.invalid("context_length_exceeded", "body", "body: expected a prompt of at most "
                    + topics.mostBytes() + " bytes (intake.max.bytes), got " + first.length));
            return;
        }
        sent.accept(line, prompts.size());
        for (int part = 0; part < prompts.size() && !over; part++) {
            if (!answers.isAnswered(line.number(), part)) {
                topics.send(key(prompts.getFirst(), line.number()), part == 0 ? first : topics.encode(prompts.get(part)));
            }
        }
    }

    private List<Prompt> prompts(InferenceRequest request, int line) {
        return request.prompts(BatchRun.requestId(manifest, line), manifest.tenant(), manifest.expiresMs(), false);
    }

    /// One key for all parts of a line, so that they meet in the instance that has their prompt in its cache.
    private byte[] key(Prompt prompt, int line) {
        String session = prompt.getSessionId();
        return (session == null ? BatchRun.requestId(manifest, line) : session).getBytes(StandardCharsets.UTF_8);
    }

    /// Remembers a part that a quota refused for now.
    void putOff(int line, int part, long notBeforeMs) {
        putOff.put((long) line << 8 | part, notBeforeMs);
    }

    /// Sends again what a quota put off until now.
    boolean sendAgain(long now) {
        List<Long> due = putOff.entrySet().stream().filter(entry -> entry.getValue() <= now).limit(AGAIN_PARTS)
                .map(Map.Entry::getKey).toList();
        for (Long key : due) {
            int line = (int) (key >> 8);
            int part = (int) (key & 0xff);
            putOff.remove(key);
            if (!answers.isAnswered(line, part)) {
                Prompt prompt = at(line).get(part);
                topics.send(key(prompt, line), topics.encode(prompt));
            }
        }
        if (!due.isEmpty()) {
            topics.flush();
        }
        return !due.isEmpty();
    }

    /// The prompts of a line that was accepted before.
    private List<Prompt> at(int number) {
        int most = mostLineBytes(topics.mostBytes());
        try (InputLines at = new InputLines(input, number - 1, offset(number), most)) {
            InputLines.Line line = at.next();
            InferenceRequest request = line == null ? null : new LineReader(manifest.endpoint(), most).read(line).request();
            if (request == null) {
                throw new BatchException("BATCH_STATE", input + ": line " + number + " is not the one that was sent; the directory was changed");
            }
            return prompts(request, number);
        }
    }

    private long offset(int number) {
        long[] all = offsets == null ? lineOffsets() : offsets;
        offsets = all;
        return all[number - 1];
    }

    private long[] lineOffsets() {
        long[] all = new long[sent.line() + 1];
        int line = 0;
        long at = 0;
        try (InputStream in = new BufferedInputStream(Files.newInputStream(input), 1 << 16)) {
            for (int b = in.read(); b >= 0 && line < sent.line(); b = in.read()) {
                at++;
                if (b == '\n') {
                    all[++line] = at;
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(input + ": cannot be read: " + e.getMessage(), e);
        }
        return all;
    }

    /// Asks the service to end every prompt that has no answer yet.
    void sendCancels(long now) {
        int most = mostLineBytes(topics.mostBytes());
        LineReader fresh = new LineReader(manifest.endpoint(), most);
        try (InputLines all = new InputLines(input, 0, 0, most)) {
            for (InputLines.Line line = all.next(); line != null; line = all.next()) {
                int parts = sent.parts(line.number());
                if (parts == 0 || answers.answered(line.number()) >= parts) {
                    continue;
                }
                InferenceRequest request = fresh.read(line).request();
                if (request != null) {
                    List<Prompt> prompts = prompts(request, line.number());
                    for (int part = 0; part < parts; part++) {
                        if (!answers.isAnswered(line.number(), part)) {
                            topics.cancel(key(prompts.get(part), line.number()), prompts.get(part), now);
                        }
                    }
                }
            }
        }
        topics.flush();
    }
}
