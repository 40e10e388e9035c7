package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// The benchmark goes through the same seam on every backend, and every case of it can be run.
@Timeout(180)
class KernelBenchTest {
    private static final KernelBench.Size SMALL = new KernelBench.Size(48, 128, 32);
    private static final long ROTATION = 1 << 16;

    /// A few operations on a device, a few layers of its cache.
    private static final long DEVICE_PASS = 1 << 15;

    private static List<String> cases(List<String> backends, CudaConfig cuda, int most) {
        List<String> names = new ArrayList<>();
        try (KernelBench bench = new KernelBench(backends, 2, SMALL, cuda, ROTATION, DEVICE_PASS)) {
            for (int i = 0; i < bench.cases().size(); i++) {
                KernelBench.Case one = bench.cases().get(i);
                assertThat(one.bytes()).isPositive();
                if (one.batch() <= most) {
                    assertThat(bench.seconds(i)).as("%s", one).isPositive();
                    assertThat(bench.seconds(i)).as("%s, with the next copy", one).isPositive();
                }
                names.add(one.bench() + " " + one.format() + " " + one.batch() + " " + one.shape());
            }
        }
        return names;
    }

    @Test
    void everyBackendHasTheSameCases() {
        StandIn.assumePresent();
        List<String> processor = cases(List.of("scalar"), CudaConfig.SYSTEM, 32);
        assertThat(cases(List.of("cuda"), CudaConfig.STANDIN.withMemoryBytes(256 << 20), 2)).isEqualTo(processor);
        assertThat(processor).hasSizeGreaterThan(40).doesNotHaveDuplicates()
                .contains("gated int4 8 2 of 48 x 128", "gated-apart int4 8 2 of 48 x 128")
                .contains("addnorm f32 1 rows of 128", "addnorm-apart f32 1 rows of 128")
                .contains("select bf16 1 16 of 32 index keys, 32 heads of 128")
                .contains("sparse int8 1 16 of latent, 64 heads, 512 + 64, 32 tokens");
    }

    @Test
    void backendsOfOneMemoryShareTheirCaches() {
        assertThat(cases(List.of("scalar", "vector"), CudaConfig.SYSTEM, 1)).hasSizeGreaterThan(80);
    }

    @Test
    void indexKeysOfAllPagesShouldDiffer() {
        try (KernelBench bench = new KernelBench(List.of("scalar"), 1, SMALL, CudaConfig.SYSTEM, ROTATION, DEVICE_PASS)) {
            assertThat(bench.selections()).hasSize(3).allSatisfy(selection -> {
                List<Integer> first = new ArrayList<>();
                List<Integer> second = new ArrayList<>();
                for (int position : selection.positions()) {
                    (position < 16 ? first : second).add(position % 16);
                }
                assertThat(first).as("slots of the first page and of the second").isNotEqualTo(second);
            });
        }
    }

    @Test
    void indexKeysShouldFillTheRotationByThemselves() {
        KernelBench.Size small = new KernelBench.Size(16, 32, 16);
        try (KernelBench bench = new KernelBench(List.of("scalar"), 1, small, CudaConfig.SYSTEM, ROTATION, DEVICE_PASS)) {
            for (int i = 0; i < bench.cases().size(); i++) {
                KernelBench.Case one = bench.cases().get(i);
                if (one.bench().equals("select")) {
                    assertThat(bench.copies(i) * one.bytes()).as("%s", one).isGreaterThanOrEqualTo(ROTATION);
                }
            }
        }
    }
}
