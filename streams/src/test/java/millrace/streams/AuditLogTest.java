package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.Optional;
import java.util.Properties;
import millrace.integrity.Digest;
import millrace.integrity.Origin;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class AuditLogTest {
    private static final Origin ORIGIN = new Origin("millrace.test", "c", "llm.audit", 0, 0);
    private static final Duration SHORT = Duration.ofMillis(1);

    private KeyValueStore<Bytes, byte[]> store;

    @BeforeEach
    void open() {
        Properties properties = new Properties();
        properties.put("application.id", "test");
        properties.put("bootstrap.servers", "nowhere:1");
        MockProcessorContext<Void, Void> context = new MockProcessorContext<>(properties);
        store = Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(AuditLog.STORE), Serdes.Bytes(), Serdes.ByteArray())
                .withLoggingDisabled().build();
        store.init(context.getStateStoreContext(), store);
    }

    private static Digest leaf(int i) {
        return Digest.sha256("leaf " + i);
    }

    private static AuditTail tail(int seq) {
        return partition -> seq < 0 ? Optional.empty() : Optional.of(new AuditTail.Last(ORIGIN.text(), seq, leaf(seq)));
    }

    private AuditLog open(AuditTail tail, boolean newEpoch) {
        return AuditLog.open(store, ORIGIN, tail, SHORT, Ticker.SYSTEM, newEpoch);
    }

    /// A log of three leaves whose state was saved after the first `saved` of them.
    private void write(int saved) {
        AuditLog log = open(tail(-1), false);
        for (int i = 0; i < saved; i++) {
            log.append(leaf(i));
        }
        log.save();
    }

    @Test
    void goesOnWhereTheStateAndTheTopicAgree() {
        write(3);
        AuditLog log = open(tail(2), false);
        assertThat(log.state().size()).isEqualTo(3);
        assertThat(log.previous()).isNull();
    }

    @Test
    void savesNothingThatWasNotAppended() {
        AuditLog log = open(tail(-1), false);
        log.save();
        try (var all = store.all()) {
            assertThat(all.hasNext()).isFalse();
        }
    }

    @Test
    void waitsForATopicThatIsBehind() {
        write(3);
        int[] reads = {0};
        AuditTail late = partition -> reads[0]++ < 2 ? tail(1).last(partition) : tail(2).last(partition);
        assertThat(AuditLog.open(store, ORIGIN, late, Duration.ofSeconds(20), Ticker.SYSTEM, false).state().size()).isEqualTo(3);
        assertThat(reads[0]).isEqualTo(3);
    }

    @Test
    void refusesAStateThatWasRolledBack() {
        write(2);
        assertThatThrownBy(() -> open(tail(2), false)).isInstanceOf(AuditLog.DivergedException.class)
                .hasMessage("LOG_STATE_DIVERGED: audit partition 0 ends with leaf 2 of " + ORIGIN.text() + " (" + leaf(2).hex()
                        + "), the log's state with leaf 1 of " + ORIGIN.text() + " (" + leaf(1).hex() + "); the state was lost or the topic"
                        + " changed. Find out why; to go on, start once with -D audit.epoch.new=true, which begins a new epoch and says so"
                        + " in the log");
    }

    @Test
    void refusesATopicThatWasRewrittenOrCutOrEmptied() {
        write(3);
        for (AuditTail tail : new AuditTail[] {
            tail(1), tail(-1), partition -> Optional.of(new AuditTail.Last(ORIGIN.text(), 2, leaf(99))),
            partition -> Optional.of(new AuditTail.Last(ORIGIN.nextEpoch().text(), 2, leaf(2)))
        }) {
            assertThatThrownBy(() -> open(tail, false)).isInstanceOf(AuditLog.DivergedException.class);
        }
    }

    @Test
    void namesTheOldLogInANewEpochAndItsRootOnlyWhenItIsKnown() {
        write(2);
        AuditLog rolledBack = open(tail(2), true);
        assertThat(rolledBack.previous().getOrigin()).isEqualTo(ORIGIN.text());
        assertThat(rolledBack.previous().getSize()).isEqualTo(3);
        assertThat(Digest.of(rolledBack.previous().getRoot())).as("the root of three leaves is not known").isEqualTo(Digest.ZERO);
        assertThat(rolledBack.state().epoch()).isEqualTo(1);
        assertThat(rolledBack.state().size()).isZero();

        AuditLog emptied = open(tail(-1), true);
        assertThat(emptied.previous().getSize()).isEqualTo(2);
        assertThat(Digest.of(emptied.previous().getRoot())).isNotEqualTo(Digest.ZERO);
        emptied.append(leaf(0));
        assertThat(emptied.previous()).as("said once").isNull();
    }
}
