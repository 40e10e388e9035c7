package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/// The whole chain in one kernel: image, driver, launch, memory.
@Tag(DeviceContract.TAG)
class CopyTest {
    @Test
    void aCopyHoldsTheSameBytes() {
        long words = 1001;
        try (Gpu gpu = StandIn.open(); Arena arena = Arena.ofConfined()) {
            MemorySegment sent = arena.allocate(16 * words);
            for (long i = 0; i < sent.byteSize(); i++) {
                sent.set(ValueLayout.JAVA_BYTE, i, (byte) (i * 31 + i / 256));
            }
            long from = gpu.allocate(sent.byteSize(), "copied from");
            long to = gpu.allocate(sent.byteSize(), "copied to");
            gpu.upload(from, sent);
            gpu.launch(gpu.kernel("copy_words16")).ptr(to).ptr(from).i64(words).run(3, 1, 1, 128, 0);
            MemorySegment received = arena.allocate(sent.byteSize());
            gpu.download(received, to);
            gpu.synchronize();
            assertThat(received.mismatch(sent)).isEqualTo(-1);
            assertThat(gpu.name()).isEqualTo("Millrace CUDA stand-in (CPU)");
        }
    }
}
