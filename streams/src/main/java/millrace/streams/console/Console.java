package millrace.streams.console;

import io.micrometer.core.instrument.MeterRegistry;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntFunction;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import millrace.integrity.TreeState;
import org.apache.avro.Schema;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/// The read-only console: one page, its files and its data. See docs/console.md.
///
/// It has what meters and the audit topic have: counts, times, names, commitments. No prompt and no completion can come
/// here, since none is handed in.
public final class Console implements AutoCloseable {
    /// The topics that it follows.
    public record Topics(String audit, String checkpoints, String faults, String cosignatures) {}

    /// What the console is given.
    ///
    /// @param facts what serves, for people: names and their values, in order
    /// @param vkey the public key that checkpoints are signed with
    /// @param health the probes' checks
    /// @param meters those of `/metrics`
    /// @param readers opens a consumer that reads committed records and is in no group
    /// @param schemas the schema of an id in the registry; may fail for the moment
    /// @param owned where each log begins that this process writes now, by partition
    /// @param witnessed told of the time, in milliseconds since the epoch, of a cosignature of such a log
    public record Setup(
            Map<String, String> facts,
            String vkey,
            Supplier<Health> health,
            MeterRegistry meters,
            Supplier<KafkaConsumer<byte[], byte[]>> readers,
            Topics topics,
            IntFunction<Schema> schemas,
            Supplier<Map<Integer, TreeState>> owned,
            LongConsumer witnessed) {}

    private final Samples samples;
    private final AuditWatch watch;
    private final Map<String, HttpDoor.Page> pages = new TreeMap<>();

    private Console(Setup setup) {
        MeterReader meters = new MeterReader(setup.meters());
        AuditTailView view = new AuditTailView();
        samples = Samples.start(meters);
        watch = AuditWatch.start(
                new AuditWatch.Setup(setup.readers(), setup.topics(), setup.schemas(), setup.owned(), setup.witnessed()), view);
        pages.putAll(Assets.pages());
        pages.putAll(new ConsoleApi(setup, meters, samples, view).pages());
    }

    /// Begins to follow the log and to sample the meters.
    public static Console start(Setup setup) {
        return new Console(setup);
    }

    Map<String, HttpDoor.Page> pages() {
        return pages;
    }

    @Override
    public void close() {
        samples.close();
        watch.close();
    }
}
