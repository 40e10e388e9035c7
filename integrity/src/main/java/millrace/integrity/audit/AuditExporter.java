package millrace.integrity.audit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Consumer;
import millrace.integrity.Checkpoint;
import millrace.integrity.IntegrityException;
import millrace.integrity.LogVerifier;
import millrace.integrity.LogVerifier.Checked;
import millrace.integrity.SignedNote;
import millrace.integrity.TileWriter;
import millrace.integrity.Verdict.Place;
import millrace.integrity.WireReader;
import millrace.schemas.CheckpointRecord;
import millrace.schemas.Schemas;
import org.jspecify.annotations.Nullable;

/// Writes logs in forms that other programs read. What is written has been verified on the way.
public final class AuditExporter {
    /// @param leaves that were written
    /// @param files of tiles and checkpoints that were written
    /// @param log the verifier, for its violation; then the files are not complete
    public record Exported(long leaves, long files, LogVerifier log) {}

    private final @Nullable Path tiles;
    private final Consumer<Checked> each;
    private final WireReader<CheckpointRecord> reader;
    private final Map<String, SignedNote> heads = new HashMap<>();
    private final Map<String, TileWriter> writers = new HashMap<>();
    private long leaves;

    private AuditExporter(AuditOptions options, @Nullable Path tiles, Consumer<Checked> each) {
        this.tiles = tiles;
        this.each = each;
        reader = new WireReader<>(Schemas.CHECKPOINT, options.resolver());
    }

    /// Exports every log up to its newest checkpoint.
    ///
    /// @param tiles gets a directory for each log, named by its origin; null for no tiles
    /// @param each told of every leaf that a checkpoint covers
    public static Exported run(
            AuditOptions options, @Nullable Path tiles, Consumer<Checked> each,
            Consumer<AuditVerifier.Progress> progress) throws IOException {
        AuditExporter exporter = new AuditExporter(options, tiles, each);
        try {
            LogVerifier log = LeafScan.read(options, new LeafScan.Sink() {
                @Override
                public void leaf(Checked leaf, byte[] value) {
                    exporter.take(leaf, value);
                }

                @Override
                public void checkpoint(Place place, byte[] value) {
                    exporter.keep(SignedNote.parse(exporter.reader.read(value).record().getNote()));
                }
            }, progress);
            long files = log.violation() == null ? exporter.finish() : 0;
            return new Exported(exporter.leaves, files, log);
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    private void keep(SignedNote note) {
        heads.merge(Checkpoint.parse(note.text()).origin(), note, (a, b) ->
                Checkpoint.parse(a.text()).size() >= Checkpoint.parse(b.text()).size() ? a : b);
    }

    private void take(Checked leaf, byte[] value) {
        String origin = leaf.record().getLogOrigin();
        SignedNote head = heads.get(origin);
        if (head == null || leaf.record().getSeq() >= Checkpoint.parse(head.text()).size()) {
            return;
        }
        leaves++;
        each.accept(leaf);
        if (tiles != null) {
            try {
                writers.computeIfAbsent(origin, key -> new TileWriter(below(tiles, key))).add(leaf.fingerprint(), value);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    /// An origin comes from the log: it must not lead out of the directory.
    private static Path below(Path tiles, String origin) {
        Path directory = tiles.resolve(origin).normalize();
        if (!directory.startsWith(tiles.normalize()) || directory.getNameCount() != tiles.normalize().getNameCount() + 5) {
            throw new IntegrityException("EXPORT_ORIGIN",
                    "export: expected an origin whose parts can name directories, got " + origin);
        }
        return directory;
    }

    private long finish() throws IOException {
        long files = 0;
        for (Map.Entry<String, TileWriter> entry : writers.entrySet()) {
            SignedNote head = heads.get(entry.getKey());
            // A log whose first leaves have expired, or whose last are late, has no whole tree.
            if (head != null && Checkpoint.parse(head.text()).size() == entry.getValue().size()) {
                entry.getValue().finish(head);
            }
            files += entry.getValue().files();
        }
        return files;
    }
}
