package millrace.streams;

import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Options;

/// Small buffers for stores that hold little: pending prompts leave within seconds, the log's state is one value.
public final class SmallRocksDb implements RocksDBConfigSetter {
    private static final long WRITE_BUFFER_BYTES = 4L << 20;
    private static final int WRITE_BUFFERS = 2;

    /// Streams makes it by reflection.
    public SmallRocksDb() {}

    @Override
    public void setConfig(String storeName, Options options, Map<String, Object> configs) {
        options.setWriteBufferSize(WRITE_BUFFER_BYTES);
        options.setMaxWriteBufferNumber(WRITE_BUFFERS);
        if (options.tableFormatConfig() instanceof BlockBasedTableConfig table) {
            table.setCacheIndexAndFilterBlocks(true);
            options.setTableFormatConfig(table);
        }
    }

    @Override
    public void close(String storeName, Options options) {
        // Nothing of our own was allocated.
    }
}
