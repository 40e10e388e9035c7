package millrace.engine.weights;

import static millrace.engine.SafetensorsWriter.bytes;
import static millrace.engine.SafetensorsWriter.entry;
import static millrace.engine.SafetensorsWriter.length;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.InvalidModelException;
import millrace.engine.SafetensorsWriter;
import millrace.engine.kernel.DType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// One test per refusal of a file's header; each pins code and message.
final class SafetensorsFileTest {
    private static final String A = entry("a", "F32", new long[] {2}, 0, 8);

    @TempDir
    Path dir;

    // --------------------------------------------------------------------------------------------- what is valid

    @Test
    void tensorsShouldBeReadAtAnyAlignment() throws IOException {
        Path file = dir.resolve("f");
        byte[] one = {0, 0, -128, 63};
        SafetensorsWriter.write(
                file,
                List.of(
                        new SafetensorsWriter.Tensor("byte", "U8", new long[] {1}, new byte[] {7}),
                        new SafetensorsWriter.Tensor("x.weight", "F32", new long[] {1, 1}, one)));
        try (Arena arena = Arena.ofConfined()) {
            List<StoredTensor> tensors = List.copyOf(SafetensorsFile.open(file, "f", arena).tensors());
            assertThat(tensors).extracting(StoredTensor::name).containsExactly("byte", "x.weight");
            StoredTensor x = tensors.get(1);
            assertThat(x.dtype()).isEqualTo(DType.F32);
            assertThat(x.shape()).containsExactly(1, 1);
            assertThat(x.elements()).isEqualTo(1);
            assertThat(x.data().isReadOnly()).isTrue();
            assertThat(x.data().get(ValueLayout.JAVA_FLOAT_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN), 0))
                    .isEqualTo(1f);
        }
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "{}",
                "{}      ",
                "{\"__metadata__\":{\"format\":\"pt\"}}",
                "{\"empty\":{\"dtype\":\"BF16\",\"shape\":[0,3],\"data_offsets\":[0,0]}}"
            })
    void fileWithoutDataShouldBeValid(String header) throws IOException {
        open(bytes(header, 0));
    }

    @Test
    void orderOfNamesAndScalarsShouldBeFree() throws IOException {
        open(bytes(
                "{" + entry("z", "F32", new long[0], 4, 8) + "," + entry("a", "F4", new long[] {8}, 0, 4) + "}", 8));
    }

    // ---------------------------------------------------------------------------------------- length of the header

    @ParameterizedTest
    @ValueSource(ints = {0, 7})
    void fileWithoutHeaderLengthShouldBeRefused(int size) {
        refused(
                new byte[size],
                "ST_TOO_SHORT",
                "f: expected at least 8 bytes of header length, got a file of " + size
                        + " bytes; complete the download");
    }

    @ParameterizedTest
    @CsvSource({
        "9223372036854775807, 9223372036854775807",
        "-1, 18446744073709551615",
        "-9223372036854775808, 9223372036854775808",
        "20, 20",
        "1, 1",
        "0, 0"
    })
    void headerLengthBeyondTheFileShouldBeRefused(long headerLength, String shown) {
        byte[] file = Arrays.copyOf(length(headerLength), 19);
        refused(
                file,
                "ST_HEADER_LEN",
                "f: expected a header of 2 to 11 bytes, got " + shown + "; restore the file");
    }

    @Test
    void headerAboveTheFormatsBoundShouldBeRefusedWithoutReadingIt() throws IOException {
        Path file = dir.resolve("big");
        try (RandomAccessFile out = new RandomAccessFile(file.toFile(), "rw")) {
            out.write(length(100_000_001));
            out.setLength(8 + 100_000_001);
        }
        long before = usedHeap();
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> {
            try (Arena arena = Arena.ofConfined()) {
                SafetensorsFile.open(file, "big", arena);
            }
        });
        assertThat(usedHeap() - before).as("bytes allocated").isLessThan(50_000_000);
        assertThat(e.code()).isEqualTo("ST_HEADER_TOO_LARGE");
        assertThat(e).hasMessage(
                "big: expected a header of at most 100000000 bytes, got 100000001; do not use this file");
    }

    // ------------------------------------------------------------------------------------------------------- JSON

    @Test
    void headerThatDoesNotBeginWithABraceShouldBeRefused() {
        refused(
                bytes("[]", 0),
                "ST_HEADER_JSON",
                "f: header: expected '{' as first byte, got 0x5b; restore the file");
        refused(
                bytes("\uFEFF{}", 0),
                "ST_HEADER_JSON",
                "f: header: expected '{' as first byte, got 0xef; restore the file");
    }

    @Test
    void headerThatIsNotUtf8ShouldBeRefused() {
        byte[] header = ("{\"__metadata__\":{\"x\":\"?\"}}").getBytes(StandardCharsets.ISO_8859_1);
        header[22] = (byte) 0xc0;
        refused(bytes(header, 0), "ST_HEADER_JSON", "f: header: expected UTF-8, got other bytes; restore the file");
    }

    @Test
    void headerInUtf16ShouldBeRefused() {
        InvalidModelException e = refusal(bytes("{}".getBytes(StandardCharsets.UTF_16LE), 0));
        assertThat(e.code()).isEqualTo("ST_HEADER_JSON");
    }

    @ParameterizedTest
    @ValueSource(strings = {"{\"a\":", "{]", "{}{}", "{}x", "{'a':1}", "{\"a\":{\"dtype\":NaN}}"})
    void headerThatIsNotOneObjectShouldBeRefused(String header) {
        InvalidModelException e = refusal(bytes(header, 0));
        assertThat(e.code()).isEqualTo("ST_HEADER_JSON");
        assertThat(e.getMessage())
                .startsWith("f: header: expected ")
                .endsWith("; restore the file")
                .doesNotContain("\n");
    }

    @ParameterizedTest
    @ValueSource(strings = {"{}\n", "{}\t ", "{}\0"})
    void paddingOtherThanSpacesShouldBeRefused(String header) {
        assertThat(refusal(bytes(header, 0)).code()).isEqualTo("ST_HEADER_JSON");
    }

    @Test
    void deepNestingShouldBeRefused() {
        assertThat(refusal(bytes("{\"a\":" + "[".repeat(10_000), 0)).code()).isEqualTo("ST_HEADER_JSON");
    }

    @Test
    void missingOrExtraFieldsShouldBeRefused() {
        refused(
                bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 0),
                "ST_HEADER_JSON",
                "f: header: expected dtype, shape and data_offsets for \"a\", got an entry without all three;"
                        + " restore the file");
        refused(
                bytes("{\"a\":{\"dtype\":\"F32\",\"x\":1}}", 0),
                "ST_HEADER_JSON",
                "f: header: expected dtype, shape and data_offsets for \"a\", got also \"x\"; restore the file");
        refused(
                bytes("{\"a\":7}", 0),
                "ST_HEADER_JSON",
                "f: header: expected an object for \"a\", got another value; restore the file");
    }

    @Test
    void duplicateNamesShouldBeRefused() {
        refused(
                bytes("{" + A + "," + A + "}", 8),
                "ST_DUPLICATE",
                "f: header: expected every name once, got \"a\" twice; do not use this file");
        refused(
                bytes("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0),
                "ST_DUPLICATE",
                "f: header: expected every name once, got \"a.dtype\" twice; do not use this file");
        assertThat(refusal(bytes("{\"__metadata__\":{\"x\":\"\",\"x\":\"\"}}", 0)).code()).isEqualTo("ST_DUPLICATE");
        assertThat(refusal(bytes("{\"__metadata__\":{},\"__metadata__\":{}}", 0)).code())
                .isEqualTo("ST_DUPLICATE");
    }

    // ----------------------------------------------------------------------------------------------- the entries

    @Test
    void shapeThatOverflowsShouldBeRefused() {
        refused(
                bytes("{" + entry("a", "F32", new long[] {1L << 32, 1L << 32}, 0, 8) + "}", 8),
                "ST_OVERFLOW",
                "f: header: \"a\": expected a shape of fewer than 2^63 bits, got [4294967296, 4294967296];"
                        + " do not use this file");
        // The number of elements fits, the number of bits does not; and a product that wraps to the right length.
        assertThat(refusal(bytes("{" + entry("a", "F64", new long[] {1L << 60}, 0, 8) + "}", 8)).code())
                .isEqualTo("ST_OVERFLOW");
        assertThat(refusal(bytes("{" + entry("a", "U8", new long[] {1L << 61, 8, 2}, 0, 0) + "}", 0)).code())
                .isEqualTo("ST_OVERFLOW");
    }

    @ParameterizedTest
    @ValueSource(strings = {"[-1]", "[1.5]", "[\"4\"]", "[9223372036854775808]", "[1e3]", "4", "[[4]]", "[null]",
        "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"})
    void shapeThatIsNotOfWholeNumbersShouldBeRefused(String shape) {
        refused(
                bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[0,16]}}", 16),
                "ST_SHAPE",
                "f: header: \"a\": expected shape as an array of at most 16 whole numbers from 0 to 2^63-1,"
                        + " got something else; restore the file");
    }

    @ParameterizedTest
    @CsvSource(delimiter = ';', value = {
        "[8,0]; \"a\": expected data_offsets [begin, end] with begin <= end, got [8, 0]",
        "[0]; \"a\": expected data_offsets [begin, end] with begin <= end, got [0]",
        "[0,-8]; \"a\": expected data_offsets as an array of at most 16 whole numbers from 0 to 2^63-1,"
                + " got something else",
        "[1,9]; \"a\": expected data from offset 0, where the tensor before ends, got a hole up to 1"
    })
    void offsetsThatDoNotFitShouldBeRefused(String offsets, String message) {
        refused(
                bytes("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" + offsets + "}}", 8),
                "ST_LAYOUT",
                "f: header: " + message + "; restore the file");
    }

    @Test
    void tensorsThatDoNotTileTheDataShouldBeRefused() {
        refused(
                bytes("{" + A + "," + entry("b", "F32", new long[] {2}, 4, 12) + "}", 12),
                "ST_LAYOUT",
                "f: header: \"b\": expected data from offset 8, where the tensor before ends, got an overlap from 4;"
                        + " restore the file");
        refused(
                bytes("{" + A + "," + entry("b", "F32", new long[] {1}, 12, 16) + "}", 16),
                "ST_LAYOUT",
                "f: header: \"b\": expected data from offset 8, where the tensor before ends, got a hole up to 12;"
                        + " restore the file");
        refused(
                bytes("{" + A + "}", 7),
                "ST_LAYOUT",
                "f: header: \"a\": expected an end within the 7 bytes of data, got 8; restore the file");
        refused(
                bytes("{" + A + "}", 9),
                "ST_LAYOUT",
                "f: expected the data to end with the last tensor at offset 8, got 9 bytes of data; restore the file");
        assertThat(refusal(bytes("{}", 1)).code()).isEqualTo("ST_LAYOUT");
    }

    @Test
    void dtypeThatDoesNotFitShouldBeRefused() {
        refused(
                bytes("{" + entry("a", "F33", new long[] {2}, 0, 8) + "}", 8),
                "ST_DTYPE",
                "f: header: \"a\": expected a dtype of the format, such as BF16, got \"F33\"; restore the file");
        refused(
                bytes("{\"a\":{\"dtype\":4,\"shape\":[],\"data_offsets\":[0,4]}}", 4),
                "ST_DTYPE",
                "f: header: \"a\": expected a dtype of the format, such as BF16, got no string; restore the file");
        refused(
                bytes("{" + entry("a", "F32", new long[] {3}, 0, 8) + "}", 8),
                "ST_DTYPE",
                "f: header: \"a\": expected 12 bytes for F32 [3], got 8 by data_offsets; restore the file");
        refused(
                bytes("{" + entry("a", "F4", new long[] {3}, 0, 2) + "}", 2),
                "ST_DTYPE",
                "f: header: \"a\": expected elements that end on a byte, got F4 [3]; restore the file");
    }

    @Test
    void metadataOtherThanStringsShouldBeRefused() {
        refused(
                bytes("{\"__metadata__\":{\"x\":{\"y\":\"z\"}}}", 0),
                "ST_METADATA",
                "f: header: __metadata__: expected strings as values, got another kind of value; restore the file");
        refused(
                bytes("{\"__metadata__\":[]}", 0),
                "ST_METADATA",
                "f: header: __metadata__: expected an object, got another kind of value; restore the file");
    }

    @Test
    void tooManyTensorsShouldBeRefused() {
        var header = new StringBuilder(60_000_000).append('{');
        for (int i = 0; i < 1_000_000; i++) {
            header.append(i == 0 ? "\"" : ",\"").append(i)
                    .append("\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}");
        }
        refused(
                bytes(header.append('}').toString(), 0),
                "ST_TOO_MANY",
                "f: header: expected at most 500000 tensors, got more; split the file into shards");
    }

    @ParameterizedTest
    @ValueSource(strings = {"../../x", "", "a/b", "a\\\\b", ".a", "a\\u0000b", "a b", "\\u202e", "caf\u00e9", "a\\nb"})
    void nameThatIsMoreThanANameShouldBeRefused(String name) {
        InvalidModelException e = refusal(bytes("{" + entry(name, "F32", new long[] {2}, 0, 8) + "}", 8));
        assertThat(e.code()).isEqualTo("ST_NAME");
        assertThat(e.getMessage())
                .startsWith("f: header: expected a tensor name of 1 to 1024 printable ASCII characters without slashes"
                        + " or a leading dot, got \"")
                .matches("[ -~]+");
    }

    @ParameterizedTest
    @ValueSource(ints = {1025, 1_000_000, 20_000_000})
    void nameThatIsTooLongShouldBeRefused(int length) {
        refused(
                bytes("{" + entry("n".repeat(length), "F32", new long[] {2}, 0, 8) + "}", 8),
                "ST_NAME",
                "f: header: expected tensor names of at most 1024 bytes, got a longer one; do not use this file");
    }

    // -------------------------------------------------------------------------------------------- other formats

    @Test
    void otherFormatsShouldBeRefusedByName() {
        byte[] gguf = Arrays.copyOf("GGUF\3\0\0\0".getBytes(StandardCharsets.ISO_8859_1), 64);
        refused(
                gguf,
                "MODEL_FORMAT",
                "f: expected a safetensors file, got a GGUF file; convert the checkpoint to safetensors");
        refused(
                Arrays.copyOf(new byte[] {'P', 'K', 3, 4}, 64),
                "MODEL_FORMAT",
                "f: expected a safetensors file, got a zip archive, as PyTorch's pickles are;"
                        + " convert the checkpoint to safetensors");
        refused(
                Arrays.copyOf(new byte[] {(byte) 0x80, 2, (byte) 0x8a, 10}, 64),
                "MODEL_FORMAT",
                "f: expected a safetensors file, got a pickle, which can run code when it is opened;"
                        + " convert the checkpoint to safetensors");
    }

    @Test
    void headerLengthThatLooksLikeAPickleShouldBeValid() throws IOException {
        open(bytes("{}" + " ".repeat(0x280 - 2), 0));
    }

    // ------------------------------------------------------------------------------------------------- mutations

    @Test
    void mutatedFileShouldNeverEscapeAsAnotherError() throws IOException {
        String header = "{\"__metadata__\":{\"format\":\"pt\"}," + A + ","
                + entry("model.layers.0.mlp.gate.weight", "BF16", new long[] {2, 3}, 8, 20) + "} ";
        byte[] sound = bytes(header, 20);
        open(sound);
        int refusals = 0;
        for (long seed = 0; seed < 4000; seed++) {
            byte[] mutant = mutate(sound, new SplittableRandom(seed));
            try {
                open(mutant);
            } catch (InvalidModelException e) {
                refusals++;
                assertThat(e.getMessage()).as("seed %d", seed).matches("f: .*; [^;]+").matches("[ -~]+");
            } catch (RuntimeException | Error e) {
                throw new AssertionError("seed " + seed, e);
            }
        }
        assertThat(refusals).isGreaterThan(2000);
    }

    private static byte[] mutate(byte[] sound, SplittableRandom random) {
        byte[] mutant = sound.clone();
        int header = mutant.length - 20;
        for (int n = random.nextInt(1, 4); n > 0; n--) {
            int at = random.nextInt(random.nextInt(4) == 0 ? 8 : header);
            switch (random.nextInt(4)) {
                case 0 -> mutant[at] ^= (byte) (1 << random.nextInt(8));
                case 1 -> mutant[at] = (byte) "{}[]\",:-.0123456789eE\\u \n".charAt(random.nextInt(24));
                case 2 -> mutant[at] = sound[random.nextInt(8, header)];
                default -> mutant = Arrays.copyOf(mutant, Math.max(8, mutant.length - random.nextInt(3)));
            }
            header = Math.min(header, mutant.length);
        }
        return mutant;
    }

    // ----------------------------------------------------------------------------------------------------- tools

    private static long usedHeap() {
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private void open(byte[] file) throws IOException {
        Path path = dir.resolve("f");
        Files.write(path, file);
        try (Arena arena = Arena.ofConfined()) {
            SafetensorsFile.open(path, "f", arena);
        }
    }

    private InvalidModelException refusal(byte[] file) {
        InvalidModelException e = catchThrowableOfType(InvalidModelException.class, () -> open(file));
        assertThat(e).as("refusal").isNotNull();
        return e;
    }

    private void refused(byte[] file, String code, String message) {
        InvalidModelException e = refusal(file);
        assertThat(e.code()).isEqualTo(code);
        assertThat(e).hasMessage(message);
    }
}
