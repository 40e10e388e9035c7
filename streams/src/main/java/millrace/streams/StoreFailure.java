package millrace.streams;

import java.io.IOException;
import java.util.Locale;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.jspecify.annotations.Nullable;
import org.rocksdb.RocksDBException;

/// What a failed stream thread says of the directory of its stores.
enum StoreFailure {
    /// Nothing: something else failed.
    NONE,
    /// The device is full, or the quota is: nothing that this process could do makes room.
    FULL,
    /// Files are missing or do not hold what was written: the stores can be restored from their changelogs.
    DAMAGED;

    /// What a full device says, on this system and in this library.
    private static final String[] NO_SPACE = {"no space left on device", "disk quota exceeded", "file too large", "nospace"};

    static StoreFailure of(Throwable e) {
        boolean ofStores = false;
        for (@Nullable Throwable cause = e; cause != null; cause = cause.getCause()) {
            if ((cause instanceof RocksDBException || cause instanceof IOException) && saysNoSpace(cause)) {
                return FULL;
            }
            ofStores |= cause instanceof RocksDBException || cause instanceof ProcessorStateException;
        }
        return ofStores ? DAMAGED : NONE;
    }

    private static boolean saysNoSpace(Throwable e) {
        String message = String.valueOf(e.getMessage()).toLowerCase(Locale.ROOT);
        for (String words : NO_SPACE) {
            if (message.contains(words)) {
                return true;
            }
        }
        return false;
    }

    static IllegalStateException full(String directory, Throwable cause) {
        return new IllegalStateException("state.dir " + directory + ": STATE_DIR_FULL: expected room for the stores, got none; make room and"
                + " start again: prompts in flight stay pending, and the stores are restored from their changelogs", cause);
    }
}
