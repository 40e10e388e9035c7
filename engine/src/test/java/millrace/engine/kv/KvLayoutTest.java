package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.BackendException;
import millrace.engine.KvFormat;
import millrace.engine.KvFormat.Kind;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

final class KvLayoutTest {
    @ParameterizedTest
    @CsvSource({
        "F32, 140544",
        "BF16, 70272",
        // 512 codes, 4 scales, 64 BF16: 656 bytes a layer.
        "INT8, 40016",
        "FP8, 40016",
        // 576 codes and a scale.
        "FP8_PLAIN, 35380"
    })
    void latentOfKimiK2ShouldTakeSoManyBytesPerToken(KvFormat format, long bytes) {
        assertThat(KvLayout.latent(format, 61, 512, 64).bytesPerToken()).isEqualTo(bytes);
    }

    @ParameterizedTest
    @CsvSource({"F32, 753664", "BF16, 376832", "INT8, 191360", "INT4, 105984"})
    void groupsOfGlm46ShouldTakeSoManyBytesPerToken(KvFormat format, long bytes) {
        assertThat(KvLayout.grouped(format, 92, 8, 128).bytesPerToken()).isEqualTo(bytes);
    }

    /// How many times the tokens of BF16 the same bytes hold.
    @ParameterizedTest
    @CsvSource({"INT8, 128, 1.95", "INT8, 256, 1.98", "INT8, 64, 1.93", "INT4, 128, 3.5", "INT4, 64, 3.5", "INT4, 32, 3.5"})
    void groupedFormatsShouldHoldMoreTokensThanBf16(KvFormat format, int headDim, double ratio) {
        assertRatio(KvLayout.grouped(KvFormat.BF16, 46, 8, headDim), KvLayout.grouped(format, 46, 8, headDim), ratio);
    }

    @ParameterizedTest
    @CsvSource({"INT8, 1.75", "FP8, 1.75", "FP8_PLAIN, 1.98"})
    void latentFormatsShouldHoldMoreTokensThanBf16(KvFormat format, double ratio) {
        // Kimi K2 and GLM-5.
        for (int layers : new int[] {61, 78}) {
            assertRatio(KvLayout.latent(KvFormat.BF16, layers, 512, 64), KvLayout.latent(format, layers, 512, 64), ratio);
        }
    }

    private static void assertRatio(KvLayout halves, KvLayout smaller, double ratio) {
        assertThat((double) halves.pageBytes() / smaller.pageBytes()).isBetween(ratio, ratio * 1.02);
    }

    @Test
    void blocksShouldBeAlignedAndNotOverlap() {
        for (KvLayout layout : layouts()) {
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

    private static List<KvLayout> layouts() {
        List<KvLayout> layouts = new ArrayList<>();
        for (int headDim : new int[] {1, 17, 32, 64, 256}) {
            for (KvFormat format : KvFormat.of(Kind.GROUPED, headDim)) {
                layouts.add(KvLayout.grouped(format, 3, 2, headDim));
            }
        }
        for (KvFormat format : KvFormat.of(Kind.LATENT, 0)) {
            layouts.add(KvLayout.latent(format, 3, 130, 9));
            layouts.add(KvLayout.latent(format, 1, 1, 1));
        }
        return layouts;
    }

    @Test
    void formatsShouldBeThoseOfTheKind() {
        assertThat(KvFormat.of(Kind.GROUPED, 128))
                .containsExactly(KvFormat.F32, KvFormat.BF16, KvFormat.INT8, KvFormat.INT4);
        assertThat(KvFormat.of(Kind.GROUPED, 96)).containsExactly(KvFormat.F32, KvFormat.BF16, KvFormat.INT8);
        assertThat(KvFormat.of(Kind.LATENT, 192))
                .containsExactly(KvFormat.F32, KvFormat.BF16, KvFormat.INT8, KvFormat.FP8, KvFormat.FP8_PLAIN);
        for (Kind kind : Kind.values()) {
            assertThat(KvFormat.of(kind, 1)).contains(KvFormat.auto(kind));
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            value = {
                "FP8 | GROUPED | 128 | auto or one of f32, bf16, int8, int4, got \"fp8\": the model has grouped attention",
                "FP8_PLAIN | GROUPED | 16 | auto or one of f32, bf16, int8, got \"fp8-plain\": the model has grouped attention",
                "INT4 | LATENT | 64 | auto or one of f32, bf16, int8, fp8, fp8-plain, got \"int4\": the model has latent attention",
                "INT4 | GROUPED | 96 | auto or one of f32, bf16, int8, got \"int4\": it rotates heads, whose size must be a "
                        + "power of two from 32 on, and the model's is 96",
                "INT4 | GROUPED | 16 | auto or one of f32, bf16, int8, got \"int4\": it rotates heads, whose size must be a "
                        + "power of two from 32 on, and the model's is 16"
            })
    void formatThatAModelCannotHaveShouldBeRefused(KvFormat format, Kind kind, int headDim, String message) {
        assertThatThrownBy(() -> format.require(kind, headDim))
                .isInstanceOfSatisfying(
                        BackendException.class, refusal -> assertThat(refusal.code()).isEqualTo("KV_FORMAT"))
                .hasMessage("engine.kv.format: expected " + message);
    }

    @Test
    void idsShouldNameTheFormats() {
        assertThat(KvFormat.ids()).containsExactly("auto", "f32", "bf16", "int8", "int4", "fp8", "fp8-plain");
        for (KvFormat format : KvFormat.values()) {
            assertThat(KvFormat.ofId(format.id())).isEqualTo(format);
        }
        assertThatThrownBy(() -> KvFormat.ofId("fp4"))
                .hasMessage("KV format: expected one of f32, bf16, int8, int4, fp8, fp8-plain, got \"fp4\"");
    }
}
