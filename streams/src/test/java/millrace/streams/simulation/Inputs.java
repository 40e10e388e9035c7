package millrace.streams.simulation;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.RecordModel;
import millrace.schemas.Sampling;
import millrace.streams.TopologyParts;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.jspecify.annotations.Nullable;

/// Prompts of every kind: good, repeated, in conflict, refused, unreadable.
final class Inputs {
    /// Stands in every prompt's text and in every tenant's name, and must stand nowhere else.
    static final String SECRET = "s3cr3t";

    /// What a client calls a request by.
    record Named(@Nullable String tenant, String requestId) {}

    /// @param named null where it is no prompt
    /// @param clockDecides whether what becomes of it depends on when it is read
    record Input(int partition, Broker.Entry entry, String kind, @Nullable Named named, boolean clockDecides) {}

    private record Sent(byte[] key, Prompt prompt) {}

    private final SplittableRandom random;
    private final List<Sent> sent = new ArrayList<>();
    private int count;

    Inputs(SplittableRandom random) {
        this.random = random;
    }

    Input next(long nowMs) {
        int roll = random.nextInt(100);
        if (roll < 55) {
            return send(good().build(), "good", nowMs);
        }
        if (roll < 65 && !sent.isEmpty()) {
            Sent again = sent.get(random.nextInt(sent.size()));
            return input(again.key, again.prompt, "repeated", nowMs, false);
        }
        if (roll < 70 && !sent.isEmpty()) {
            Sent earlier = sent.get(random.nextInt(sent.size()));
            Prompt other = RecordModel.instance().deepCopy(Prompt.getClassSchema(), earlier.prompt);
            other.setPriority(earlier.prompt.getPriority() + 1);
            return input(earlier.key, other, "in conflict", nowMs, false);
        }
        return roll < 85 ? refused(nowMs) : unreadable(nowMs);
    }

    private Prompt.Builder good() {
        count++;
        Prompt.Builder prompt = Prompt.newBuilder().setRequestId("r-" + count);
        String text = SECRET + " question " + count;
        if (random.nextInt(4) == 0) {
            prompt.setMessages(List.of(Message.newBuilder().setRole("user").setContent(text).setToolCalls(List.of()).build()));
        } else {
            prompt.setPrompt(text);
        }
        if (random.nextInt(2) == 0) {
            prompt.setTenant("tenant-" + SECRET + "-" + random.nextInt(3));
        }
        if (random.nextInt(4) == 0) {
            prompt.setMetadata(Map.of("place", "here-" + count)).setReturnTokenIds(true);
        }
        if (count % 4 == 0) {
            prompt.setLogprobs(count % 3);
        }
        if (random.nextInt(3) == 0) {
            prompt.setSampling(Sampling.newBuilder().setTemperature(0.5f).setSeed(random.nextLong()).build());
        }
        return prompt;
    }

    private Input send(Prompt prompt, String kind, long nowMs) {
        byte[] key = prompt.getRequestId().getBytes(StandardCharsets.UTF_8);
        sent.add(new Sent(key, prompt));
        return input(key, prompt, kind, nowMs, false);
    }

    private Input refused(long nowMs) {
        Prompt.Builder prompt = good();
        boolean clock = false;
        String kind;
        switch (random.nextInt(11)) {
            case 0 -> kind = named("bad id", prompt.setRequestId("r " + count + "\r\nINFO forged"));
            case 1 -> kind = named("bad tenant", prompt.setTenant("no tenant"));
            case 2 -> kind = named("no prompt", prompt.setPrompt(null).setMessages(null));
            case 3 -> kind = named("two prompts", prompt.setPrompt("a").setTokenIds(List.of(1)));
            case 4 -> kind = named("other model", prompt.setModel("another"));
            case 5 -> kind = named("bad priority", prompt.setPriority(1_000));
            case 6 -> kind = named("blank", prompt.setMessages(null).setPrompt("  "));
            case 7 -> kind = named("too large", prompt.setMessages(null).setPrompt(SECRET.repeat(400)));
            case 8 -> kind = named("no number", prompt.setSampling(Sampling.newBuilder().setTemperature(Float.NaN).build()));
            case 9 -> kind = named("answer too large", prompt.setMessages(null).setPrompt(SECRET + count + " at length"));
            default -> {
                clock = random.nextBoolean();
                kind = named("deadline", prompt.setDeadlineMs(clock ? nowMs + 3_600_000 : 1));
            }
        }
        Prompt built = prompt.build();
        return input(built.getRequestId().getBytes(StandardCharsets.UTF_8), built, kind, nowMs, clock);
    }

    /// A request that may come next; its tenant is guessed.
    Named upcoming() {
        int tenant = random.nextInt(6);
        return new Named(tenant < 3 ? "tenant-" + SECRET + "-" + tenant : null, "r-" + (count + 1 + random.nextInt(4)));
    }

    private static String named(String kind, Prompt.Builder prompt) {
        return kind;
    }

    private Input unreadable(long nowMs) {
        byte[] good = TopologyParts.encode(good().build());
        byte[] key = random.nextBoolean() ? null : ("k" + count).getBytes(StandardCharsets.UTF_8);
        return switch (random.nextInt(6)) {
            case 0 -> input(key, null, "null", nowMs);
            case 1 -> input(key, new byte[0], "empty", nowMs);
            case 2 -> input(key, Arrays.copyOf(good, 4), "four bytes", nowMs);
            case 3 -> {
                good[0] = 1;
                yield input(key, good, "magic", nowMs);
            }
            case 4 -> {
                ByteBuffer.wrap(good).putInt(1, 9_999);
                yield input(key, good, "unknown schema", nowMs);
            }
            default -> input(key, Arrays.copyOf(good, good.length - 1 - random.nextInt(good.length - 6)), "cut", nowMs);
        };
    }

    private Input input(byte[] key, Prompt prompt, String kind, long nowMs, boolean clockDecides) {
        Named named = new Named(prompt.getTenant(), prompt.getRequestId());
        Broker.Entry entry = new Broker.Entry(key, TopologyParts.encode(prompt), new RecordHeaders(), nowMs, null);
        return new Input(partition(key), entry, kind, named, clockDecides);
    }

    private Input input(byte @Nullable [] key, byte @Nullable [] value, String kind, long nowMs) {
        int partition = partition(key == null ? new byte[] {(byte) random.nextInt()} : key);
        return new Input(partition, new Broker.Entry(key, value, new RecordHeaders(), nowMs, null), kind, null, false);
    }

    /// Where records of this key go.
    static int partition(byte[] key) {
        CRC32C crc = new CRC32C();
        crc.update(key);
        return (int) (crc.getValue() % Broker.PARTITIONS);
    }
}
