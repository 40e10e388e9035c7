package millrace.engine.checkpoint;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import java.util.function.Consumer;
import java.util.zip.CRC32C;
import millrace.engine.InvalidModelException;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.DType;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.Matrix;
import millrace.engine.weights.StoredTensor;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

final class BlobTest {
    private static final Arena ARENA = Arena.ofShared();
    private static final Backend BACKEND = Backend.open("scalar", 1);
    private static final Kernels KERNELS = BACKEND.kernels();
    private static final String NAME = "model.layers.0.mlp.up_proj.weight";
    private static final int FIXED = 32;
    private static final int CHUNK = 1 << 16;

    @AfterAll
    static void close() {
        BACKEND.close();
        ARENA.close();
    }

    /// Weights that are nearly normal, with a share of far larger ones.
    static short[] weights(int count, double outliers, long seed) {
        var random = new SplittableRandom(seed);
        short[] values = new short[count];
        for (int i = 0; i < count; i++) {
            double value = random.nextGaussian() * 0.02;
            if (random.nextDouble() < outliers) {
                value *= Math.pow(10, 1 + 2 * random.nextDouble());
            }
            values[i] = (short) (Float.floatToRawIntBits((float) value) >>> 16);
        }
        return values;
    }

    private static Matrix matrix(WeightFormat format, int rows, int cols, double outliers) {
        MemorySegment data = ARENA.allocate(4L * rows * cols, 64);
        MemorySegment.copy(weights(rows * cols, outliers, 7), 0, data, ValueLayout.JAVA_SHORT, 0, rows * cols);
        DType dtype = format == WeightFormat.F32 ? DType.F16 : DType.BF16;
        return KERNELS.pack(Matrix.Source.rowMajor(dtype, data, rows, cols), format, ARENA);
    }

    private static byte[] bytes(Matrix matrix) {
        return Blob.write(NAME, matrix, ARENA).toArray(ValueLayout.JAVA_BYTE);
    }

    private static Matrix read(String name, byte[] bytes) {
        MemorySegment data = ARENA.allocate(bytes.length);
        MemorySegment.copy(bytes, 0, data, ValueLayout.JAVA_BYTE, 0, bytes.length);
        StoredTensor tensor = new StoredTensor(name, DType.U8, new long[] {bytes.length}, data);
        return Blob.of(tensor).read(tensor, KERNELS, ARENA);
    }

    private static String refusal(byte[] bytes) {
        return refusal(NAME, bytes);
    }

    private static String refusal(String name, byte[] bytes) {
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> read(name, bytes));
        assertThat(e).as("refusal").isNotNull();
        assertThat(e.code()).isEqualTo(e.getMessage().contains("the checksum") ? "BLOCK_CRC"
                : e.getMessage().contains("a finite scale") ? "W_SCALE" : "BLOCK_FORMAT");
        assertThat(e.getMessage()).startsWith("weights: " + name + ": ").endsWith("; pack the checkpoint again");
        String text = e.getMessage();
        return text.substring(("weights: " + name + ": ").length(), text.length() - "; pack the checkpoint again".length());
    }

    /// A change behind the checksums, which are made to fit again: what only the contents can give away.
    private static byte[] forged(byte[] bytes, Consumer<ByteBuffer> change) {
        byte[] copy = bytes.clone();
        ByteBuffer all = ByteBuffer.wrap(copy).order(ByteOrder.LITTLE_ENDIAN);
        change.accept(all);
        int chunks = all.getInt(20);
        int header = FIXED + 4 * chunks + 4;
        for (int c = 0; c < chunks && header + c * CHUNK < copy.length; c++) {
            int length = Math.min(CHUNK, copy.length - header - c * CHUNK);
            all.putInt(FIXED + 4 * c, crc(NAME, c, copy, header + c * CHUNK, length));
        }
        all.putInt(header - 4, crc(NAME, -1, copy, 0, header - 4));
        return copy;
    }

    private static int crc(String name, int number, byte[] bytes, int from, int length) {
        var crc = new CRC32C();
        crc.update(name.getBytes(StandardCharsets.UTF_8));
        crc.update(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(0, number));
        crc.update(bytes, from, length);
        return (int) crc.getValue();
    }

    private static int payload(byte[] bytes) {
        return FIXED + 4 * ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getInt(20) + 4;
    }

    // ----------------------------------------------------------------------------------------------- round trip

    @ParameterizedTest
    @EnumSource
    void everyFormatShouldComeBack(WeightFormat format) {
        for (int[] size : new int[][] {{1, 1}, {16, 64}, {35, 80}, {96, 300}, {600, 200}}) {
            for (double outliers : new double[] {0, 0.01, 0.3}) {
                Matrix matrix = matrix(format, size[0], size[1], outliers);
                Matrix back = read(NAME, bytes(matrix));
                assertThat(back.format()).isEqualTo(format);
                assertThat(back.rows()).isEqualTo(size[0]);
                assertThat(back.cols()).isEqualTo(size[1]);
                assertThat(back.data().mismatch(matrix.data())).isEqualTo(-1);
                for (int p = 0; p < matrix.panels(); p++) {
                    assertThat(back.panelOffset(p)).isEqualTo(matrix.panelOffset(p));
                    assertThat(back.rawPanel(p)).isEqualTo(matrix.rawPanel(p));
                }
            }
        }
    }

    @Test
    void panelsThatGainNothingShouldStayInBf16() {
        byte[] noise = new byte[2 * 48 * 80];
        new SplittableRandom(5).nextBytes(noise);
        MemorySegment data = ARENA.allocate(noise.length);
        MemorySegment.copy(noise, 0, data, ValueLayout.JAVA_BYTE, 0, noise.length);
        Matrix matrix = KERNELS.pack(Matrix.Source.rowMajor(DType.BF16, data, 48, 80), WeightFormat.PACKED, ARENA);
        assertThat(matrix.rawPanel(0) && matrix.rawPanel(1) && matrix.rawPanel(2)).isTrue();
        byte[] bytes = bytes(matrix);
        assertThat(bytes).hasSize(40 + 16 + 3 * 4 + noise.length);
        assertThat(read(NAME, bytes).data().mismatch(matrix.data())).isEqualTo(-1);
    }

    @ParameterizedTest
    @ValueSource(doubles = {0, 0.01})
    void packedFilesShouldTakeAtMost77Percent(double outliers) {
        for (int[] size : new int[][] {{64, 64}, {192, 192}, {1024, 64}, {64, 1024}, {512, 2048}}) {
            long raw = 2L * size[0] * size[1];
            assertThat((double) bytes(matrix(WeightFormat.PACKED, size[0], size[1], outliers)).length / raw)
                    .as("%d × %d", size[0], size[1])
                    .isLessThan(0.77);
        }
    }

    /// The example of docs/formats.md: one row of 32 columns, all 1 but the last, which is −2.
    @Test
    void vectorsOfTheDocuments() {
        short[] values = new short[32];
        Arrays.fill(values, (short) 0x3F80);
        values[31] = (short) 0xC000;
        MemorySegment data = ARENA.allocate(64);
        MemorySegment.copy(values, 0, data, ValueLayout.JAVA_SHORT, 0, values.length);
        Matrix.Source source = Matrix.Source.rowMajor(DType.BF16, data, 1, 32);
        byte[] packed = Blob.write("x", KERNELS.pack(source, WeightFormat.PACKED, ARENA), ARENA)
                .toArray(ValueLayout.JAVA_BYTE);
        String header = HexFormat.of().formatHex(packed, 0, 40);
        String table = HexFormat.of().formatHex(packed, 40, 56);
        String lastBlock = HexFormat.of().formatHex(packed, 61 + 3 * 192, 61 + 3 * 192 + 4);
        String lastHalf = HexFormat.of().formatHex(packed, 61 + 3 * 192 + 128, 61 + 3 * 192 + 132);
        assertThat(packed).hasSize(829);
        assertThat(header).isEqualTo("4d52573103000000010000002000000001000000010000001503000000000000f0f5fee6fda9792b");
        assertThat(table).isEqualTo("7f800000000000000000000000000000");
        assertThat(HexFormat.of().formatHex(packed, 56, 61)).as("escapes, flags").isEqualTo("0000000000");
        assertThat(lastBlock).as("codes of the last eight columns").isEqualTo("00000010");
        assertThat(lastHalf).as("signs and mantissas of the last four").isEqualTo("80000000");
        byte[] int4 = Blob.write("x", KERNELS.pack(source, WeightFormat.INT4, ARENA), ARENA)
                .toArray(ValueLayout.JAVA_BYTE);
        assertThat(HexFormat.of().formatHex(int4, 0, 40)).isEqualTo("4d525731050000000100000020000000000000000100000040020000000000007b65cdd0fe4a0dd0");
    }

    // ------------------------------------------------------------------------------------------------- refusals

    @Test
    void cutTensorShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.PACKED, 600, 200, 0.01));
        for (int length : new int[] {0, 3, 35}) {
            assertThat(refusal(Arrays.copyOf(whole, length)))
                    .isEqualTo("expected a packed tensor that begins with MRW1, got " + length + " other bytes");
        }
        assertThat(refusal(Arrays.copyOf(whole, 40))).isEqualTo("header: expected at least 48 bytes, got 40");
        int size = whole.length;
        assertThat(refusal(Arrays.copyOf(whole, size - 1)))
                .isEqualTo("expected " + size + " bytes by its header, got " + (size - 1));
    }

    @Test
    void trailingBytesShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.INT4, 35, 80, 0));
        assertThat(refusal(Arrays.copyOf(whole, whole.length + 1)))
                .isEqualTo("expected " + whole.length + " bytes by its header, got " + (whole.length + 1));
    }

    @Test
    void anotherVersionOrFormatShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.INT8, 16, 64, 0));
        byte[] version = whole.clone();
        version[3] = '2';
        assertThat(refusal(version))
                .isEqualTo("expected a packed tensor that begins with MRW1, got " + whole.length + " other bytes");
        assertThat(refusal(forged(whole, all -> all.put(4, (byte) 7))))
                .isEqualTo("format: expected 1 to 6 and zeros, got 7 and 0");
        assertThat(refusal(forged(whole, all -> all.put(6, (byte) 1))))
                .isEqualTo("format: expected 1 to 6 and zeros, got 4 and 256");
    }

    @Test
    void sectionsOfOtherLengthsShouldBeRefused() {
        byte[] int8 = bytes(matrix(WeightFormat.INT8, 16, 64, 0));
        assertThat(refusal(forged(int8, all -> all.putInt(12, 65))))
                .isEqualTo("expected no tables and 2176 bytes for 16 × 65 in int8, got 0 and 1088");
        assertThat(refusal(forged(int8, all -> all.putInt(8, 17))))
                .isEqualTo("expected no tables and 2176 bytes for 17 × 64 in int8, got 0 and 1088");
        assertThat(refusal(forged(int8, all -> all.putInt(16, 1))))
                .isEqualTo("expected no tables and 1088 bytes for 16 × 64 in int8, got 1 and 1088");
        assertThat(refusal(forged(int8, all -> all.putInt(8, -1))))
                .isEqualTo("header: expected rows, columns and chunks that agree, got -1, 64 and 1 for 1088 bytes");
        assertThat(refusal(forged(int8, all -> all.putLong(24, 1087))))
                .isEqualTo("expected 1127 bytes by its header, got 1128");
        assertThat(refusal(forged(int8, all -> all.putLong(24, Long.MAX_VALUE))))
                .startsWith("header: expected rows, columns and chunks that agree");
        byte[] packed = bytes(matrix(WeightFormat.PACKED, 35, 80, 0));
        assertThat(refusal(forged(packed, all -> all.putInt(16, 2))))
                .isEqualTo("expected 1 or 3 tables and their panels, got 2 in " + (packed.length - 40) + " bytes");
        assertThat(refusal(forged(packed, all -> all.putInt(12, 81))))
                .startsWith("expected ").endsWith("bytes of panels, got " + (packed.length - 40));
    }

    @Test
    void damagedBytesShouldBeRefusedByPlace() {
        byte[] whole = bytes(matrix(WeightFormat.PACKED, 600, 200, 0));
        byte[] damaged = whole.clone();
        damaged[payload(whole) + CHUNK + 5] ^= 1;
        assertThat(refusal(damaged))
                .matches("bytes 65536 to 131072: expected the checksum [0-9a-f]{8} of this place, got [0-9a-f]{8}");
        damaged = whole.clone();
        damaged[33] ^= 1;
        assertThat(refusal(damaged))
                .matches("header: expected the checksum [0-9a-f]{8} of this tensor, got [0-9a-f]{8}");
    }

    @Test
    void tableOfAnotherTensorShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.PACKED, 600, 200, 0));
        byte[] other = bytes(matrix(WeightFormat.PACKED, 600, 200, 0.01));
        byte[] mixed = whole.clone();
        System.arraycopy(other, payload(other), mixed, payload(whole), 16);
        assertThat(mixed).isNotEqualTo(whole);
        assertThat(refusal(mixed)).startsWith("bytes 0 to 65536: expected the checksum ");
    }

    @Test
    void chunksInAnotherOrderShouldBeRefusedWithTheirChecksums() {
        byte[] mixed = bytes(matrix(WeightFormat.BF16, 600, 200, 0));
        int from = payload(mixed);
        for (int i = 0; i < CHUNK; i++) {
            byte kept = mixed[from + i];
            mixed[from + i] = mixed[from + CHUNK + i];
            mixed[from + CHUNK + i] = kept;
        }
        ByteBuffer all = ByteBuffer.wrap(mixed).order(ByteOrder.LITTLE_ENDIAN);
        int first = all.getInt(FIXED);
        all.putInt(FIXED, all.getInt(FIXED + 4)).putInt(FIXED + 4, first);
        all.putInt(from - 4, crc(NAME, -1, mixed, 0, from - 4));
        assertThat(refusal(mixed)).startsWith("bytes 0 to 65536: expected the checksum ");
    }

    @Test
    void tensorUnderAnotherNameShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.INT8, 16, 64, 0));
        assertThat(refusal("model.layers.1.mlp.up_proj.weight", whole)).startsWith("header: expected the checksum ");
    }

    @Test
    void escapesThatAreNotThoseCountedShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.PACKED, 35, 80, 0.01));
        ByteBuffer all = ByteBuffer.wrap(whole).order(ByteOrder.LITTLE_ENDIAN);
        int counts = payload(whole) + 16 * all.getInt(16);
        int first = all.getInt(counts);
        assertThat(first).isPositive();
        // One more here, one less there: the sum is right, the panels are not.
        assertThat(refusal(forged(whole, b -> b.putInt(counts, first + 1).putInt(counts + 4, b.getInt(counts + 4) - 1))))
                .startsWith("panel 0: expected ");
        assertThat(refusal(forged(whole, b -> b.putInt(counts, first + 1)))).endsWith(" bytes of panels, got "
                + (whole.length - payload(whole)));
        assertThat(refusal(forged(whole, b -> b.putInt(counts, -5))))
                .isEqualTo("panel 0: expected a number of escapes, got -5");
        assertThat(refusal(forged(whole, b -> b.putInt(counts, 1 << 30))))
                .isEqualTo("panel 0: expected a number of escapes, got 1073741824");
        assertThat(refusal(forged(whole, b -> b.putInt(counts, 1 << 31))))
                .as("said to be in BF16").endsWith(" bytes of panels, got " + (whole.length - payload(whole)));
    }

    @Test
    void flagsBeyondTheLastBlockShouldBeRefused() {
        byte[] whole = bytes(matrix(WeightFormat.PACKED, 16, 80, 0));
        int flags = payload(whole) + 16 + 4;
        assertThat(refusal(forged(whole, all -> all.put(flags + 1, (byte) 0x80))))
                .isEqualTo("panel 0: expected flags of 10 blocks, got one for block 15");
    }

    @Test
    void scalesAndCodesThatAreNoNumbersShouldBeRefused() {
        byte[] int8 = bytes(matrix(WeightFormat.INT8, 16, 64, 0));
        assertThat(refusal(forged(int8, all -> all.putShort(payload(int8) + 2 * 19, (short) 0x7F80))))
                .isEqualTo("row 3, group 1: expected a finite scale, got Infinity");
        byte[] fp8 = bytes(matrix(WeightFormat.FP8, 16, 128, 0));
        assertThat(refusal(forged(fp8, all -> all.putInt(payload(fp8) + 4 * 2, 0x7FC00000))))
                .isEqualTo("row 2, group 0: expected a finite scale, got NaN");
        assertThat(refusal(forged(fp8, all -> all.put(payload(fp8) + 64 + 77, (byte) 0xFF))))
                .isEqualTo("panel 0: expected numbers, got an FP8 NaN near byte 136");
    }

    // ----------------------------------------------------------------------------------------------------- fuzz

    @ParameterizedTest
    @EnumSource
    void everyFlippedBitShouldBeRefused(WeightFormat format) {
        byte[] whole = bytes(matrix(format, 5, 40, 0.02));
        var random = new SplittableRandom(42);
        for (int i = 0; i < 10_000; i++) {
            byte[] flipped = whole.clone();
            flipped[i < whole.length ? i : random.nextInt(whole.length)] ^= (byte) (1 << random.nextInt(8));
            refusal(flipped);
        }
    }

    @ParameterizedTest
    @EnumSource
    void forgedBytesShouldGiveWeightsOrARefusalAndNothingElse(WeightFormat format) {
        byte[] whole = bytes(matrix(format, 20, 40, 0.02));
        var random = new SplittableRandom(43);
        for (int round = 0; round < 3000; round++) {
            int at = random.nextInt(10) == 0 ? random.nextInt(32) : random.nextInt(whole.length);
            byte value = (byte) random.nextInt(256);
            byte[] forged = whole.clone();
            forged[at] = value;
            int chunks = ByteBuffer.wrap(forged).order(ByteOrder.LITTLE_ENDIAN).getInt(20);
            if (chunks == 1) {
                forged = forged(forged, all -> {});
            }
            try {
                Matrix matrix = read(NAME, forged);
                float[] row = new float[matrix.cols()];
                for (int r = 0; r < matrix.rows(); r++) {
                    matrix.row(r, row, 0);
                }
            } catch (InvalidModelException e) {
                assertThat(e.code()).isIn("BLOCK_FORMAT", "BLOCK_CRC", "W_SCALE");
            }
        }
    }
}
