package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import millrace.engine.kernel.CacheShape;
import millrace.engine.kv.KvLayout;
import org.junit.jupiter.api.Test;

/// Names of formats and of speculation, as records and the command line have them.
final class CacheFormatsTest {
    @Test
    void readsTheNameOfEveryLayout() {
        for (KvFormat kv : KvFormat.of(KvFormat.Kind.LATENT, 64)) {
            KvLayout plain = KvLayout.latent(kv, 2, 128, 64);
            assertThat(CacheFormats.of(plain.id())).isEqualTo(new CacheFormats(kv, null));
            assertThat(CacheFormats.of(plain.id()).id()).isEqualTo(plain.id());
            for (String index : CacheFormats.indexIds().subList(1, 4)) {
                KvLayout sparse = plain.withIndex(KvFormat.ofId(index), 1, 128);
                assertThat(CacheFormats.of(sparse.id())).isEqualTo(new CacheFormats(kv, KvFormat.ofId(index)));
                assertThat(CacheFormats.of(sparse.id()).id()).isEqualTo(sparse.id());
            }
        }
    }

    @Test
    void refusesOtherNames() {
        assertThatThrownBy(() -> CacheFormats.of("int8 index fp8"))
                .hasMessage("format of index keys: expected one of auto, f32, bf16, int8, got \"fp8\"");
        assertThatThrownBy(() -> CacheFormats.of("int9")).hasMessageStartingWith("KV format: expected one of ");
        assertThat(CacheFormats.indexOfIdOrAuto("auto")).isNull();
        assertThatThrownBy(() -> KvFormat.FP8.requireForIndex(128))
                .hasMessage("engine.kv.index.format: expected auto or one of f32, bf16, int8 (int8 up to "
                        + CacheShape.Grouped.MOST_INT8_DIM + " dimensions, the model has 128), got \"fp8\"");
        assertThatThrownBy(() -> KvFormat.INT8.requireForIndex(CacheShape.Grouped.MOST_INT8_DIM + 1))
                .hasMessageEndingWith("got \"int8\"");
        KvFormat.BF16.requireForIndex(CacheShape.Grouped.MOST_INT8_DIM + 1);
    }

    @Test
    void readsSpeculation() {
        for (String text : new String[] {"off", "mtp:1", "mtp:3", "auto:2"}) {
            assertThat(Speculation.of(text).id()).isEqualTo(text);
        }
        assertThat(Speculation.of("mtp")).isEqualTo(new Speculation(Speculation.Mode.MTP, 1));
        assertThatThrownBy(() -> Speculation.of("mtp:0")).hasMessage("speculation: expected 1 to 3 tokens, got \"0\"");
        assertThatThrownBy(() -> Speculation.of("mtp:4")).hasMessage("speculation: expected 1 to 3 tokens, got 4");
        assertThatThrownBy(() -> Speculation.of("on")).hasMessage("speculation: expected one of off, mtp, auto, got \"on\"");
    }
}
