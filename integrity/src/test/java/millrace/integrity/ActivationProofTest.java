package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ActivationProofTest {
    /// The second needs a smaller modulus: 10 and 65507 are the same modulo the prime.
    @ParameterizedTest
    @CsvSource({
        "'1 2 3', '4 5 6', ffd9000300010000",
        "'10 65507 131000', '3f80 bf80 4049', ffd84fed7cb80028",
        "'5 70000 1234567 126993', '4120 c0a0 3e99 7f7f', ffd95d16e93718cc9d6b",
    })
    void encodesAsTheReferenceDoes(String indices, String bits, String encoded) {
        int[] x = Arrays.stream(indices.split(" ")).mapToInt(Integer::parseInt).toArray();
        int[] y = Arrays.stream(bits.split(" ")).mapToInt(hex -> Integer.parseInt(hex, 16)).toArray();
        assertThat(HexFormat.of().formatHex(ActivationProof.of(x, y).encode())).isEqualTo(encoded);
    }

    @Test
    void agreesWithTheComputationItWasMadeFrom() {
        for (int seed = 0; seed < 50; seed++) {
            Top top = top(seed);
            ActivationProof proof = ActivationProof.parse(ActivationProof.of(top.indices, top.bits).encode());
            ActivationProof.Comparison same = proof.compare(top.indices, top.bits);
            assertThat(same).isEqualTo(new ActivationProof.Comparison(128, 128, 0, 0));
            assertThat(same.plausible()).isTrue();
        }
    }

    @Test
    void toleratesAnotherOrderOfSummationAndNotAnotherModel() {
        Top top = top(1);
        ActivationProof proof = ActivationProof.of(top.indices, top.bits);
        int[] near = top.bits.clone();
        for (int i = 0; i < near.length; i++) {
            near[i] = (near[i] & 0x7F) < 0x7E ? near[i] + i % 3 - (near[i] % 128 == 0 ? 0 : 1) : near[i];
        }
        assertThat(proof.compare(top.indices, near).plausible()).isTrue();
        Top other = top(2);
        assertThat(proof.compare(other.indices, other.bits).plausible()).isFalse();
    }

    /// 90 of 128 is the last that passes.
    @Test
    void needsEnoughEqualExponents() {
        Top top = top(3);
        ActivationProof proof = ActivationProof.of(top.indices, top.bits);
        for (int wrong : new int[] {38, 39}) {
            int[] bits = top.bits.clone();
            for (int i = 0; i < wrong; i++) {
                bits[i] ^= 0x80;
            }
            assertThat(proof.compare(top.indices, bits).matches()).isEqualTo(128 - wrong);
            assertThat(proof.compare(top.indices, bits).plausible()).isEqualTo(wrong == 38);
        }
    }

    @Test
    void needsNearMantissas() {
        assertThat(new ActivationProof.Comparison(128, 128, 10, 8).plausible()).isTrue();
        assertThat(new ActivationProof.Comparison(128, 128, 10.1, 8).plausible()).isFalse();
        assertThat(new ActivationProof.Comparison(128, 128, 10, 8.5).plausible()).isFalse();
    }

    @Test
    void refusesWhatIsNoProof() {
        refused(new byte[257], "activation proof: expected 258 bytes, got 257");
        refused(new byte[258], "activation proof: modulus: expected 128 to 65497, got 0");
        refused(withModulus(65_498), "activation proof: modulus: expected 128 to 65497, got 65498");
        refused(withModulus(127), "activation proof: modulus: expected 128 to 65497, got 127");
        byte[] coefficient = withModulus(65_497);
        coefficient[4] = (byte) 0xFF;
        coefficient[5] = (byte) 0xD9;
        refused(coefficient, "activation proof: coefficient 1: expected below 65497, got 65497");
        assertThatThrownBy(() -> ActivationProof.of(new int[] {1, 1}, new int[] {0, 0}))
                .isInstanceOf(IntegrityException.class)
                .hasMessage("activation proof: expected different indices of at least 0 and a value for each, "
                        + "got 2 indices and 2 values");
        assertThatThrownBy(() -> ActivationProof.of(new int[] {1}, new int[] {0x7FC0}))
                .isInstanceOf(IntegrityException.class)
                .hasMessage("activation proof: expected finite BF16 values, got bits 0x7fc0");
    }

    /// Whatever the bytes are, they are refused or are a proof that encodes to the same bytes.
    @Test
    void readsAnyBytesOrRefusesThem() {
        SplittableRandom random = new SplittableRandom(5);
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = new byte[random.nextInt(4) == 0 ? random.nextInt(600) : ActivationProof.BYTES];
            random.nextBytes(bytes);
            for (int at = 0; at < bytes.length; at += 2) {
                bytes[at] &= (byte) (random.nextInt(64) == 0 ? 0xFF : 0x7F);
            }
            try {
                assertThat(ActivationProof.parse(bytes).encode()).isEqualTo(bytes);
            } catch (IntegrityException e) {
                assertThat(e.code()).isEqualTo("PROOF_FORMAT");
            }
        }
    }

    private static byte[] withModulus(int modulus) {
        byte[] bytes = new byte[ActivationProof.BYTES];
        bytes[0] = (byte) (modulus >> 8);
        bytes[1] = (byte) modulus;
        return bytes;
    }

    private static void refused(byte[] bytes, String message) {
        assertThatThrownBy(() -> ActivationProof.parse(bytes)).isInstanceOf(IntegrityException.class).hasMessage(message)
                .extracting(e -> ((IntegrityException) e).code()).isEqualTo("PROOF_FORMAT");
    }

    private record Top(int[] indices, int[] bits) {}

    private static Top top(int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        int[] indices = random.ints(0, 32 * 7168).distinct().limit(128).toArray();
        int[] bits = random.ints(128, 0x3F00, 0x42FF).map(b -> b | random.nextInt(2) << 15).toArray();
        return new Top(indices, bits);
    }
}
