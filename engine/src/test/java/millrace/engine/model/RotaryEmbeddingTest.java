package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.Rows;
import org.assertj.core.data.Percentage;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

final class RotaryEmbeddingTest {
    private static final JsonNode UNITS = TinyModel.golden("golden_units");

    @ParameterizedTest
    @CsvSource({
        "K2-Instruct, 50000, 32, 1",
        "K2-0905/K2-Thinking, 50000, 64, 1",
        "K2.5, 50000, 64, 32",
        "DeepSeek-V3, 10000, 40, 32"
    })
    void yarnShouldStretchAsTheReferenceDoes(String name, double theta, double factor, double betaFast) {
        JsonNode golden = UNITS.get("yarn").get(name);
        var yarn = new RopeScaling.Yarn(factor, 4096, betaFast, 1, 1.0, 1.0, null, true);
        var rotary = new RotaryEmbedding(new RopeConfig(theta, 64, true, yarn));
        assertFrequencies(rotary, golden.get("inv_freq_idx"));
        assertThat(rotary.attentionFactor()).isEqualTo(golden.get("cos_sin_factor").doubleValue());
        double scale = RotaryEmbedding.softmaxFactor(yarn) / Math.sqrt(192);
        assertThat(scale).isCloseTo(golden.get("softmax_scale_192").doubleValue(), Percentage.withPercentage(1e-5));
    }

    @Test
    void llama3ShouldStretchByWavelength() {
        var scaling = new RopeScaling.Llama3(8, 1, 4, 8192);
        var rotary = new RotaryEmbedding(new RopeConfig(500_000, 128, false, scaling));
        assertFrequencies(rotary, UNITS.get("llama3.1_inv_freq"));
    }

    @Test
    void plainFrequenciesShouldBePowersOfTheta() {
        var rotary = new RotaryEmbedding(new RopeConfig(1e6, 64, false, new RopeScaling.None()));
        assertFrequencies(rotary, UNITS.get("glm_inv_freq_theta1e6_dim64"));
    }

    private static void assertFrequencies(RotaryEmbedding rotary, JsonNode expected) {
        expected.properties().forEach(one -> assertThat(rotary.frequency(Integer.parseInt(one.getKey())))
                .as("frequency %s", one.getKey())
                .isCloseTo(one.getValue().doubleValue(), Percentage.withPercentage(1e-6)));
    }

    @ParameterizedTest
    @CsvSource(nullValues = "-", value = {
        "-, -, -, 1.138629436, 1",
        "1, 1, -, 1, 1.296477",
        "0.707, 1, -, 0.964328, 1.296477",
        "1, 0, -, 1.138629436, 1",
        "-, -, 1.5, 1.5, 1"
    })
    void yarnFactorsShouldDependOnWhichKeysAreGiven(
            Double mscale, Double allDim, Double attention, double cosFactor, double softmaxFactor) {
        var yarn = new RopeScaling.Yarn(4, 64, 32, 1, mscale, allDim, attention, true);
        var rotary = new RotaryEmbedding(new RopeConfig(1e4, 16, true, yarn));
        assertThat(rotary.attentionFactor()).isCloseTo(cosFactor, within(1e-5));
        assertThat(RotaryEmbedding.softmaxFactor(yarn)).isCloseTo(softmaxFactor, within(1e-5));
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void rotationShouldPairDimensionsByLayout(boolean interleaved) {
        double[] inverse = {1, .5, .25, .125};
        Rows angles = Rows.allocate(1, 8);
        for (int i = 0; i < 4; i++) {
            angles.values()[i] = (float) Math.cos(3 * inverse[i]);
            angles.values()[4 + i] = (float) Math.sin(3 * inverse[i]);
        }
        // The second head of two, behind a dimension that is not rotated, with one after.
        Rows x = Rows.allocate(1, 20);
        for (int i = 0; i < 8; i++) {
            x.values()[11 + i] = i + 1;
        }
        x.values()[10] = 100;
        x.values()[19] = 200;
        try (Backend backend = Backend.open("auto", 1)) {
            backend.kernels().rotate(x, 1, 2, 10, 1, angles, interleaved);
        }
        JsonNode golden =
                UNITS.get("rope_pos3_x1..8_inv[1,.5,.25,.125]").get(interleaved ? "interleaved" : "half_split");
        for (int i = 0; i < 8; i++) {
            assertThat(x.values()[11 + i]).isCloseTo(golden.get(i).floatValue(), within(2e-6f));
        }
        assertThat(x.values()[10]).isEqualTo(100);
        assertThat(x.values()[19]).isEqualTo(200);
    }

    @Test
    void farPositionsShouldKeepTheirDigits() {
        var rotary = new RotaryEmbedding(new RopeConfig(1e4, 64, true, new RopeScaling.None()));
        float[] angles = new float[64];
        rotary.angles(1_000_003, angles, 0);
        assertThat(angles[0]).isCloseTo((float) StrictMath.cos(1_000_003), within(1e-7f));
        assertThat(angles[32]).isCloseTo((float) StrictMath.sin(1_000_003), within(1e-7f));
    }
}
