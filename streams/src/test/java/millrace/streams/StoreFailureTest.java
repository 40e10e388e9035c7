package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.StreamsException;
import org.junit.jupiter.api.Test;
import org.rocksdb.RocksDBException;

/// Which failures of a stream thread are its stores', and which of those no restore could cure.
class StoreFailureTest {
    @Test
    void aFullDeviceIsNoDamage() {
        assertThat(StoreFailure.of(new StreamsException(new ProcessorStateException("Error while executing put",
                new RocksDBException("While appending to file: /state/000012.sst: No space left on device"))))).isEqualTo(StoreFailure.FULL);
        assertThat(StoreFailure.of(new StreamsException(new IOException("Disk quota exceeded")))).isEqualTo(StoreFailure.FULL);
    }

    @Test
    void whatRocksDbCannotReadIsRestored() {
        assertThat(StoreFailure.of(new ProcessorStateException("Error opening store pending at location /state",
                new RocksDBException("Corruption: block checksum mismatch")))).isEqualTo(StoreFailure.DAMAGED);
        assertThat(StoreFailure.of(new StreamsException(new ProcessorStateException("task directory could not be created"))))
                .isEqualTo(StoreFailure.DAMAGED);
    }

    @Test
    void whatElseFailsKeepsItsStores() {
        assertThat(StoreFailure.of(new StreamsException("the broker is away"))).isEqualTo(StoreFailure.NONE);
        assertThat(StoreFailure.of(new IllegalStateException("No space left on device"))).isEqualTo(StoreFailure.NONE);
    }
}
