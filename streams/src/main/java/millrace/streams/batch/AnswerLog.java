package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.Consumer;
import millrace.streams.openai.Json;

/// The answers that were read so far, one for each part of a line, with the positions that they were read up to.
///
/// Beside the texts lies an index of 24 bytes an entry: line, part, kind, length (int32 each), offset (int64). In memory
/// the entries of a line are a list through arrays.
final class AnswerLog implements AutoCloseable {
    private static final String PROGRESS = "collected.json";
    private static final String TEXTS = "answers.jsonl";
    private static final String INDEX = "answers.idx";
    private static final int ENTRY_BYTES = 24;
    private static final int READ_ENTRIES = 4_096;

    /// What an entry says.
    enum Kind {
        /// The text is the body of an answer.
        ANSWER,
        /// The text is an error that is the answer.
        ERROR,
        /// A quota refused the prompt; the offset says when it may be sent again, milliseconds since the epoch. No text.
        AGAIN,
        /// The text is an error, which is that the batch ended before the answer.
        ENDED
    }

    /// One entry.
    record Entry(int line, int part, Kind kind, long offset, int length) {}

    private final Path directory;
    private final Durable.Log texts;
    private final Durable.Log index;
    private long[] positions;
    private int[] head = new int[1 << 10];
    private int[] next = new int[1 << 10];
    private int[] lines = new int[1 << 10];
    private int[] partsAndKinds = new int[1 << 10];
    private long[] offsets = new long[1 << 10];
    private int[] lengths = new int[1 << 10];
    /// Entry numbers are from 1, so that 0 ends a list.
    private int size;
    private int answered;
    private int unfinished;

    /// @param first positions to begin at where nothing was collected yet
    AnswerLog(Path directory, List<Long> first) {
        this.directory = directory;
        ObjectNode progress = Durable.read(directory.resolve(PROGRESS));
        int entries = progress == null ? 0 : progress.path("entries").asInt();
        positions = progress == null ? first.stream().mapToLong(Long::longValue).toArray()
                : Manifest.longs(progress.path("positions")).toArray();
        texts = new Durable.Log(directory.resolve(TEXTS), progress == null ? 0 : progress.path("bytes").asLong());
        index = new Durable.Log(directory.resolve(INDEX), (long) entries * ENTRY_BYTES);
        for (int from = 0; from < entries; from += READ_ENTRIES) {
            int count = Math.min(READ_ENTRIES, entries - from);
            ByteBuffer block = ByteBuffer.wrap(index.read((long) from * ENTRY_BYTES, count * ENTRY_BYTES));
            for (int i = 0; i < count; i++) {
                link(block.getInt(), block.getInt(), Kind.values()[block.getInt()], block.getInt(), block.getLong());
            }
        }
    }

    /// Where to read on in a partition.
    long position(int partition) {
        return partition < positions.length ? positions[partition] : 0;
    }

    void advance(int partition, long position) {
        if (partition >= positions.length) {
            positions = Arrays.copyOf(positions, partition + 1);
        }
        positions[partition] = position;
    }

    /// Parts that have an answer.
    int answered() {
        return answered;
    }

    /// Parts that the end of the batch left without an answer of their own.
    int unfinished() {
        return unfinished;
    }

    boolean isAnswered(int line, int part) {
        for (int entry = first(line); entry != 0; entry = next[entry]) {
            if (partsAndKinds[entry] >> 2 == part && kind(entry) != Kind.AGAIN) {
                return true;
            }
        }
        return false;
    }

    /// Parts of a line that have an answer.
    int answered(int line) {
        int count = 0;
        for (int entry = first(line); entry != 0; entry = next[entry]) {
            count += kind(entry) == Kind.AGAIN ? 0 : 1;
        }
        return count;
    }

    boolean hasError(int line) {
        for (int entry = first(line); entry != 0; entry = next[entry]) {
            if (kind(entry) == Kind.ERROR || kind(entry) == Kind.ENDED) {
                return true;
            }
        }
        return false;
    }

    /// Keeps the first answer to a part; later ones are passed over.
    ///
    /// @return whether it is the first
    boolean add(int line, int part, Kind kind, ObjectNode answer) {
        if (isAnswered(line, part)) {
            return false;
        }
        byte[] text = (Json.write(answer) + "\n").getBytes(StandardCharsets.UTF_8);
        long offset = texts.length();
        texts.append(text);
        write(line, part, kind, text.length, offset);
        return true;
    }

    void again(int line, int part, long notBeforeMs) {
        write(line, part, Kind.AGAIN, 0, notBeforeMs);
    }

    /// The answers of a line, in the order of its parts.
    List<Entry> of(int line) {
        List<Entry> entries = new ArrayList<>();
        for (int entry = first(line); entry != 0; entry = next[entry]) {
            if (kind(entry) != Kind.AGAIN) {
                entries.add(entry(entry));
            }
        }
        entries.sort(Comparator.comparingInt(Entry::part));
        return entries;
    }

    /// The parts that are to be sent again and have no answer yet, the latest word of each.
    void putOff(Consumer<Entry> sink) {
        for (int entry = 1; entry <= size; entry++) {
            if (kind(entry) == Kind.AGAIN && !isAnswered(lines[entry], partsAndKinds[entry] >> 2)) {
                sink.accept(entry(entry));
            }
        }
    }

    ObjectNode text(Entry entry) {
        return Json.read(texts.read(entry.offset(), entry.length()));
    }

    /// Says on the disk what was read, with the positions.
    void save() {
        texts.sync();
        index.sync();
        ObjectNode progress = Json.object().put("entries", size).put("bytes", texts.length()).put("answered", answered);
        for (long position : positions) {
            progress.withArray("positions").add(position);
        }
        Durable.replace(directory.resolve(PROGRESS), progress);
    }

    private Entry entry(int entry) {
        return new Entry(lines[entry], partsAndKinds[entry] >> 2, kind(entry), offsets[entry], lengths[entry]);
    }

    private Kind kind(int entry) {
        return Kind.values()[partsAndKinds[entry] & 3];
    }

    private int first(int line) {
        return line < head.length ? head[line] : 0;
    }

    private void write(int line, int part, Kind kind, int length, long offset) {
        index.append(ByteBuffer.allocate(ENTRY_BYTES).putInt(line).putInt(part).putInt(kind.ordinal()).putInt(length).putLong(offset).array());
        link(line, part, kind, length, offset);
    }

    private void link(int line, int part, Kind kind, int length, long offset) {
        size++;
        if (size == next.length) {
            next = Arrays.copyOf(next, size * 2);
            lines = Arrays.copyOf(lines, size * 2);
            partsAndKinds = Arrays.copyOf(partsAndKinds, size * 2);
            offsets = Arrays.copyOf(offsets, size * 2);
            lengths = Arrays.copyOf(lengths, size * 2);
        }
        if (line >= head.length) {
            head = Arrays.copyOf(head, Math.max(line + 1, head.length * 2));
        }
        next[size] = head[line];
        head[line] = size;
        lines[size] = line;
        partsAndKinds[size] = part << 2 | kind.ordinal();
        offsets[size] = offset;
        lengths[size] = length;
        answered += kind == Kind.AGAIN ? 0 : 1;
        unfinished += kind == Kind.ENDED ? 1 : 0;
    }

    @Override
    public void close() {
        texts.close();
        index.close();
    }
}
