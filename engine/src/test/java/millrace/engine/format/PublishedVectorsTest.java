package millrace.engine.format;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Locale;
import org.junit.jupiter.api.Test;

/// The test vectors of `docs/formats.md` are what the encoders write.
final class PublishedVectorsTest {
    private static final byte[] CODES = {1, -2, 3, 7, -8, 0};
    private static final byte[] OCTETS = {0x38, (byte) 0xB8, 0x01, 0x7E, 0x00, 0x08};
    private static final float[] SCALES = {0.5f, -0.25f};

    @Test
    void vectorsShouldBeThoseOfTheDocument() throws IOException {
        String document = Files.readString(Path.of("../docs/formats.md"));
        short[] scales = {BFloat16.fromFloat(SCALES[0]), BFloat16.fromFloat(SCALES[1])};
        byte[] int8 = new byte[Int8Panel.BLOCK_BYTES];
        Int8Panel.encode(CODES, scales, 2, 3, MemorySegment.ofArray(int8), 0);
        byte[] int4 = new byte[Int4Panel.BLOCK_BYTES];
        Int4Panel.encode(CODES, scales, 2, 3, MemorySegment.ofArray(int4), 0);
        byte[] fp8 = new byte[Fp8Panel.BLOCK_BYTES];
        Fp8Panel.encode(OCTETS, SCALES, 2, 3, MemorySegment.ofArray(fp8), 0);
        assertThat(document)
                .contains("int8\n" + listing(int8))
                .contains("int4\n" + listing(int4))
                .contains("fp8\n" + listing(fp8));
        short[] powers = new short[18];
        for (int k = 0; k < 18; k++) {
            powers[k] = BFloat16.fromFloat(k == 17 ? -1.5f : 1 << k);
        }
        byte[] packed = new byte[(int) PackedPanel.bytes(18, 1)];
        assertThat(PackedPanel.encode(powers, 1, 18, MemorySegment.ofArray(packed), 0)).isEqualTo(packed.length);
        assertThat(document).contains("packed\n" + listing(packed));
        short[] heads = new short[256];
        for (int k = 0; k < 7; k++) {
            heads[k] = BFloat16.fromFloat(Math.scalb(k == 5 ? -1f : 1f, 2 * k - 12));
        }
        byte[] exp3s = new byte[(int) Exp3sPanel.bytes(heads, 1, 256, 4)];
        assertThat(Exp3sPanel.encode(heads, 1, 256, 4, MemorySegment.ofArray(exp3s), 0)).isEqualTo(exp3s.length);
        assertThat(document).contains("exp3s\n" + listing(exp3s));
    }

    /// Words that are not filling, four bytes each as they stand in memory.
    private static String listing(byte[] panel) {
        StringBuilder lines = new StringBuilder();
        byte filling = panel.length == Int4Panel.BLOCK_BYTES ? (byte) 0x88 : 0;
        boolean open = false;
        for (int i = 0; i < panel.length; i += 4) {
            byte usual = i < 64 ? 0 : filling;
            boolean written = false;
            for (int b = i; b < i + 4; b++) {
                written |= panel[b] != usual;
            }
            if (written) {
                lines.append(open && i % 16 != 0 ? " " : String.format(Locale.ROOT, "%s%5d:  ", open ? "\n" : "", i));
                lines.append(HexFormat.of().formatHex(panel, i, i + 4));
            } else if (open) {
                lines.append('\n');
            }
            open = written;
        }
        return lines.append(open ? "\n" : "").toString();
    }
}
