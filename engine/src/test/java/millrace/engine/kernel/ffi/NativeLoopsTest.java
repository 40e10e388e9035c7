package millrace.engine.kernel.ffi;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.net.URISyntaxException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import millrace.engine.kernel.cpu.Loops;
import millrace.engine.kernel.cpu.LoopsCases;
import millrace.engine.kernel.cpu.LoopsCases.Fill;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Native loops give the bits of the scalar ones, at every level of this machine.
final class NativeLoopsTest {
    private static final long SEED = 20261130;

    @ParameterizedTest
    @EnumSource
    void bitsShouldBeThoseOfTheSpecification(Fill fill) {
        assumeAvailable();
        Map<String, float[]> expected = LoopsCases.run(new ScalarLoops(), fill, SEED);
        Map<String, float[]> actual = LoopsCases.run(NativeTier.loops(), fill, SEED);
        assertThat(actual.keySet()).containsExactlyElementsOf(expected.keySet());
        expected.forEach((name, bits) ->
                assertThat(bits(actual.get(name))).as("%s, %s, seed %d", name, fill, SEED).isEqualTo(bits(bits)));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void lowerLevelsShouldGiveTheSameBits(int level) throws IOException, InterruptedException {
        assumeAvailable();
        assumeTrue(Symbols.LEVEL > level, "the processor has no more than level " + level);
        Process process = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "--enable-native-access=ALL-UNNAMED",
                        "-Dmillrace.native.level=" + level,
                        "-cp",
                        home(Lower.class) + File.pathSeparator + home(NativeLoops.class),
                        Lower.class.getName())
                .redirectErrorStream(true)
                .start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor()).as(printed).isZero();
        StringBuilder expected = new StringBuilder((level == 1 ? "AVX2" : "AVX-512") + " null");
        for (Fill fill : Fill.values()) {
            expected.append(' ').append(LoopsCases.digest(LoopsCases.run(new ScalarLoops(), fill, SEED)));
        }
        assertThat(printed.strip()).isEqualTo(expected.toString());
    }

    /// Run in a JVM of its own, without the incubator module: the level is fixed when the library is loaded.
    static final class Lower {
        private Lower() {}

        public static void main(String[] args) {
            Loops specification = new ScalarLoops();
            StringBuilder line = new StringBuilder();
            line.append(NativeTier.description().split(",")[0]).append(' ').append(NativeTier.missing(specification));
            for (Fill fill : Fill.values()) {
                line.append(' ').append(LoopsCases.digest(LoopsCases.run(NativeTier.loops(), fill, SEED)));
            }
            System.out.println(line);
        }
    }

    @Test
    void wrongBitsShouldBeFoundByTheSelfTest() {
        Loops right = new ScalarLoops();

        assertThat(SelfTest.failure(right, right)).isNull();
        Loops wrong = (Loops) Proxy.newProxyInstance(
                Loops.class.getClassLoader(), new Class<?>[] {Loops.class}, (proxy, method, arguments) -> {
                    Object result = method.invoke(right, arguments);
                    if (method.getName().equals("project")) {
                        float[] out = (float[]) arguments[arguments.length - 1];
                        out[0] = Math.nextUp(out[0]);
                    }
                    return result;
                });
        assertThat(SelfTest.failure(wrong, right))
                .matches("self-test: project F32, 1 rows, output 0: expected \\S+, got \\S+");
    }

    static void assumeAvailable() {
        String missing = NativeTier.missing(new ScalarLoops());
        assumeTrue(missing == null, "no native kernels here: " + missing);
    }

    private static String home(Class<?> type) {
        try {
            return Path.of(type.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }

    private static int[] bits(float[] values) {
        int[] bits = new int[values.length];
        for (int i = 0; i < values.length; i++) {
            bits[i] = Float.floatToIntBits(values[i]);
        }
        return bits;
    }
}
