package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import millrace.engine.KvFormat;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class KvLayoutTest {
    @ParameterizedTest
    @CsvSource({
        "F32, 140544",
        "BF16, 70272",
        // 512 codes, 4 scales, 64 BF16: 656 bytes a layer.
        "INT8, 40016"
    })
    void latentOfKimiK2ShouldTakeSoManyBytesPerToken(KvFormat format, long bytes) {
        assertThat(KvLayout.latent(format, 61, 512, 64).bytesPerToken()).isEqualTo(bytes);
    }

    @ParameterizedTest
    @CsvSource({"F32, 753664", "BF16, 376832", "INT8, 194304"})
    void groupsOfGlm46ShouldTakeSoManyBytesPerToken(KvFormat format, long bytes) {
        assertThat(KvLayout.grouped(format, 92, 8, 128).bytesPerToken()).isEqualTo(bytes);
    }

    @Test
    void blocksShouldBeAlignedAndNotOverlap() {
        for (KvFormat format : KvFormat.values()) {
            for (KvLayout layout : new KvLayout[] {
                KvLayout.grouped(format, 3, 2, 17),
                KvLayout.latent(format, 3, 130, 9),
                KvLayout.grouped(format, 1, 1, 1)
            }) {
                long end = 0;
                for (int layer = 0; layer < layout.layers(); layer++) {
                    for (int head = 0; head < layout.heads(); head++) {
                        assertThat(layout.blockOffset(layer, head)).isEqualTo(end);
                        assertThat(end % 64).isZero();
                        end += layout.shape().blockBytes();
                    }
                }
                assertThat(layout.pageBytes()).isEqualTo(end);
            }
        }
    }
}
