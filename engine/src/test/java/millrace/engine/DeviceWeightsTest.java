package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.Kernels;
import millrace.engine.kernel.WeightCopy;
import millrace.engine.kernel.cuda.StandIn;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.ModelWeights;
import millrace.engine.model.WeightTargets;
import millrace.engine.resident.BlockTable;
import millrace.engine.resident.CopyRegion;
import millrace.engine.resident.Damage;
import millrace.engine.resident.Region;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Copies of weights on the stand-in, whose memory is the process's, are found damaged and copied again.
class DeviceWeightsTest {
    private static final Logger WARNINGS = Logger.getLogger(WeightGuard.class.getName());

    @TempDir
    Path dir;

    private final HandClock clock = new HandClock();
    private final IntegrityLedger ledger = new IntegrityLedger(clock::epochMs);
    private final List<AutoCloseable> open = new ArrayList<>();
    private final Random random = new Random(4);
    private Kernels kernels;
    private ModelWeights weights;
    private WeightGuard guard;

    @BeforeAll
    static void mute() {
        WARNINGS.setLevel(Level.OFF);
    }

    @AfterAll
    static void unmute() {
        WARNINGS.setLevel(null);
    }

    @BeforeEach
    void openDevice() {
        StandIn.assumePresent();
        Backend backend = Backend.open("cuda", 1, CudaConfig.STANDIN);
        open.add(backend);
        kernels = backend.kernels();
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable one : open.reversed()) {
            one.close();
        }
    }

    private void load(String model, String format) throws IOException {
        Path path = Files.createDirectories(dir.resolve("model"));
        TinyModel.of(model).dtype("BF16").write(path);
        try (ModelFiles files = ModelFiles.open(path)) {
            weights = ModelWeights.load(ModelConfig.read(files), files, kernels, WeightTargets.of(format));
            open.add(weights);
            var table = BlockTable.of(
                    files.modelDigest(), CopyRegion.behind(weights.regions(), kernels.copies()), kernels::forEach);
            open.add(table);
            guard = new WeightGuard(path, files.digests(), weights, table, kernels, ledger, clock);
        }
        guard.attach(() -> 0, () -> {});
    }

    private boolean scrub() {
        for (int block = 0; block < guard.count(); block++) {
            if (!guard.check(block)) {
                return false;
            }
        }
        guard.passed();
        return !guard.damaged();
    }

    private void flip(WeightCopy copy) {
        guard.regions().stream()
                .filter(region -> region.memory() == copy)
                .forEach(region -> Damage.flip(region, random));
    }

    private IntegrityEvent last() {
        return ledger.events(0).getLast();
    }

    @ParameterizedTest
    @CsvSource({"glm4_moe, packed", "kimi_k2, int4", "llama, bf16"})
    void everyFlippedBitIsFoundInOnePassAndMadeGoodFromTheHost(String model, String format) throws IOException {
        load(model, format);
        List<WeightCopy> copies = kernels.copies();
        assertThat(copies).hasSizeGreaterThan(20);
        assertThat(guard.regions()).hasSize(weights.regions().size() + copies.size());
        assertThat(scrub()).isTrue();
        for (int i = 0; i < 6; i++) {
            WeightCopy copy = i < 2 ? copies.get(i) : copies.get(random.nextInt(copies.size()));
            flip(copy);

            assertThat(scrub()).isFalse();
            assertThat(ledger.admitting()).isFalse();
            assertThat(guard.repair()).isNull();
            guard.resume();

            assertThat(last().kind()).isEqualTo(Kind.WEIGHT);
            assertThat(last().result()).isEqualTo(Result.REPAIRED);
            assertThat(last().detail()).contains("_on_the_device block=0 format=copy");
            assertThat(ledger.admitting()).isTrue();
            assertThat(scrub()).as("as it was").isTrue();
            clock.nanos += TimeUnit.HOURS.toNanos(25);
        }
    }

    @Test
    void damageOfTheHostIsMadeGoodFirstAndReachesTheDevice() throws IOException {
        load("llama", "int8");
        WeightCopy copy = kernels.copies().getFirst();
        Region original = weights.regions().stream()
                .filter(region -> region.memory() == copy.source())
                .findFirst()
                .orElseThrow();
        Damage.flip(original, random);
        flip(copy);

        assertThat(scrub()).isFalse();
        assertThat(guard.repair()).isNull();
        guard.resume();

        assertThat(scrub()).isTrue();
        assertThat(copy.digest(0)).isEqualTo(copy.expected(0));
        assertThat(ledger.events(0)).filteredOn(event -> event.result() == Result.REPAIRED).isNotEmpty();
    }

    @Test
    void theSecondFaultOfACopyWithinADayRefuses() throws IOException {
        load("llama", "bf16");
        WeightCopy copy = kernels.copies().get(5);
        flip(copy);
        assertThat(scrub()).isFalse();
        assertThat(guard.repair()).isNull();
        guard.resume();
        clock.nanos += TimeUnit.HOURS.toNanos(23);
        flip(copy);
        assertThat(scrub()).isFalse();

        assertThat(guard.repair())
                .startsWith("integrity: WEIGHT_REPEATED: weights: ")
                .endsWith(" on the device, block 0: damaged for the second time within 24 hours; take this machine out of"
                        + " service and test its memory");
        assertThat(ledger.refusal()).isNotNull();
        assertThat(last().code()).isEqualTo("WEIGHT_REPEATED");
    }

    @Test
    void verifyNowLooksAtCopiesToo() throws IOException {
        load("qwen3", "bf16");
        flip(kernels.copies().getLast());
        guard.verifyNow();
        assertThat(guard.damaged()).isTrue();
    }
}
