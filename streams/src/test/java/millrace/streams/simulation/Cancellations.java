package millrace.streams.simulation;

import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.streams.Cancellation;
import millrace.streams.TopologyParts;
import org.jspecify.annotations.Nullable;

/// What clients cancel: prompts of theirs, before, while and after they are computed; what is another's; and records that
/// are no cancellation. Knows which prompts may end for it, and which must.
final class Cancellations {
    private static final int RECENT = 6;

    private final World world;
    private final SplittableRandom random;
    /// By partition: the request that a record cancels, by its offset.
    private final List<Map<Long, String>> given = List.of(new TreeMap<>(), new TreeMap<>(), new TreeMap<>());
    /// By partition: a request, and the offset from which on its prompts were read after the cancellation had been committed.
    private final List<Map<String, Long>> before = List.of(new TreeMap<>(), new TreeMap<>(), new TreeMap<>());
    private final Set<String> held = new HashSet<>();

    Cancellations(World world, SplittableRandom random) {
        this.world = world;
        this.random = random;
    }

    /// Names a request, for who compares.
    static String request(@Nullable String tenant, String requestId) {
        return tenant + " " + requestId;
    }

    /// Cancels something.
    ///
    /// @param inputs what was produced so far
    /// @return what was done
    String give(List<Inputs.Input> inputs, Inputs prompts) {
        Inputs.Named victim = random.nextInt(4) == 0 || inputs.isEmpty()
                ? prompts.upcoming()
                : inputs.get(Math.max(0, inputs.size() - 1 - random.nextInt(RECENT))).named();
        if (victim == null) {
            return "cancel nothing";
        }
        int partition = Inputs.partition(victim.requestId().getBytes(StandardCharsets.UTF_8));
        String kind = "of a prompt";
        byte[] value = TopologyParts.encode(Cancellation.of(victim.tenant(), victim.requestId(), world.clock.millis()));
        boolean valid = true;
        switch (random.nextInt(8)) {
            case 0 -> {
                kind = "of another tenant";
                value = TopologyParts.encode(Cancellation.of("mallory", victim.requestId(), 0));
                valid = false;
            }
            case 1 -> {
                kind = "that is an order";
                value = TopologyParts.encode(Control.newBuilder().setKind(ControlKind.ERASE_TENANT).setTenant(victim.tenant())
                        .setRequestId(victim.requestId()).setIssuedMs(0).build());
                valid = false;
            }
            case 2 -> {
                kind = "that is none";
                value = new byte[] {0, 9, 9};
                valid = false;
            }
            default -> { }
        }
        Broker.Log log = world.broker.log(TopologyParts.CANCELS, partition);
        if (valid) {
            given.get(partition).put((long) log.entries.size(), request(victim.tenant(), victim.requestId()));
        }
        log.append(new Broker.Entry(null, value, null, world.clock.millis(), null));
        return "cancellation " + kind + " to " + partition;
    }

    /// After a commit: prompts that are read from now on meet what was cancelled.
    void committed() {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            long next = world.broker.committedCancels(partition);
            long read = world.broker.committedOffset(partition);
            Map<String, Long> earliest = before.get(partition);
            given.get(partition).forEach((offset, request) -> {
                if (offset < next) {
                    earliest.putIfAbsent(request, read);
                }
            });
        }
    }

    /// Before a task is opened: prompts that it finds pending and that were cancelled are not to be computed again.
    ///
    /// @param requests of the pending prompts, by their offset
    void opens(int partition, Map<Long, String> requests) {
        long next = world.broker.committedCancels(partition);
        Set<String> cancelled = new HashSet<>();
        given.get(partition).forEach((offset, request) -> {
            if (offset < next) {
                cancelled.add(request);
            }
        });
        requests.forEach((offset, request) -> {
            if (cancelled.contains(request)) {
                held.add(partition + "/" + offset);
            }
        });
    }

    /// Whether the prompt's own client has cancelled it.
    boolean mayEnd(int partition, @Nullable String request) {
        return given.get(partition).containsValue(request);
    }

    /// Whether the cancellation was there before the prompt was, or before it was taken up again.
    boolean mustEnd(int partition, long offset, String request) {
        return held.contains(partition + "/" + offset)
                || before.get(partition).getOrDefault(request, Long.MAX_VALUE) <= offset;
    }
}
