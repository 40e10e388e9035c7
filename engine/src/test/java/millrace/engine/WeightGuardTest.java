package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
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
import millrace.engine.kernel.ApartKernels;
import millrace.engine.kernel.Backend;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.ModelWeights;
import millrace.engine.model.WeightTargets;
import millrace.engine.resident.ArrayRegion;
import millrace.engine.resident.BlockTable;
import millrace.engine.resident.CopyRegion;
import millrace.engine.resident.Damage;
import millrace.engine.resident.MatrixRegion;
import millrace.engine.resident.Region;
import millrace.engine.weights.ModelFiles;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class WeightGuardTest {
    private static final int INJECTIONS = 400;
    private static final int INJECTIONS_BEFORE_USE = 10_000;

    /// Warns of every fault, as it should; thousands of them would hide all else.
    private static final Logger WARNINGS = Logger.getLogger(WeightGuard.class.getName());

    @TempDir
    Path dir;

    private final HandClock clock = new HandClock();
    private final IntegrityLedger ledger = new IntegrityLedger(clock::epochMs);
    private Backend backend = Backend.open("scalar", 1);
    private final List<AutoCloseable> open = new ArrayList<>();
    private Path model;
    private ModelWeights weights;
    private BlockTable table;
    private WeightGuard guard;
    private long steps;
    private int woken;

    @BeforeAll
    static void mute() {
        WARNINGS.setLevel(Level.OFF);
    }

    @AfterAll
    static void unmute() {
        WARNINGS.setLevel(null);
    }

    /// Loads a small model; `packed-int4` and the like are checkpoints of `model pack`.
    private void load(String format) throws IOException {
        model = Files.createDirectories(dir.resolve("model"));
        TinyModel.of("llama").dtype(format.equals("f32") ? "F32" : "BF16").withTokenizer().write(model);
        String target = "stored";
        if (format.startsWith("packed-")) {
            Path packed = dir.resolve("packed");
            ModelPacker.pack(model, format.substring("packed-".length()), packed, (done, total) -> {});
            model = packed;
        } else if (format.equals("fp8")) {
            Path quantised = dir.resolve("quantised");
            QuantizedModel.write(model, quantised, dir.resolve("plain"), name -> name.endsWith("_proj.weight"),
                    QuantizedModel.fp8(128, 128, "_scale_inv", "F32"), QuantizedModel.fp8Config(128, 128));
            model = quantised;
        } else if (!format.equals("f32")) {
            target = format;
        }
        try (ModelFiles files = ModelFiles.open(model)) {
            weights = ModelWeights.load(
                    ModelConfig.read(files), files, backend.kernels(), WeightTargets.of(target));
            open.add(weights);
            table = BlockTable.of(files.modelDigest(), weights.regions(), backend.kernels()::forEach);
            open.add(table);
            guard = new WeightGuard(model, files.digests(), weights, table, backend.kernels(), ledger, clock);
        }
        guard.attach(() -> steps, () -> woken++);
    }

    @AfterEach
    void close() throws Exception {
        for (AutoCloseable one : open.reversed()) {
            one.close();
        }
        backend.close();
    }

    /// One pass; ends early where something is found.
    private boolean scrub() {
        for (int block = 0; block < guard.count(); block++) {
            if (!guard.check(block)) {
                return false;
            }
        }
        guard.passed();
        return !guard.damaged();
    }

    private Region region(String name) {
        return weights.regions().stream().filter(r -> r.name().endsWith(name)).findFirst().orElseThrow();
    }

    private IntegrityEvent last() {
        return ledger.events(0).getLast();
    }

    @ParameterizedTest
    @ValueSource(strings = {"f32", "bf16", "packed", "int8", "int4", "fp8", "packed-packed", "packed-int8", "packed-int4"})
    void everyFlippedBitIsFoundInOnePassAndRepairedFromTheFile(String format) throws IOException {
        load(format);
        Random random = new Random(format.hashCode());
        List<Region> regions = guard.regions();
        for (int i = 0; i < INJECTIONS; i++) {
            clock.nanos += TimeUnit.HOURS.toNanos(25);
            int r = random.nextInt(regions.size());
            Damage.flip(regions.get(r), random);
            assertThat(scrub()).as("%s, injection %d", regions.get(r).name(), i).isFalse();
            assertThat(guard.damaged()).isTrue();
            assertThat(ledger.admitting()).isFalse();
            assertThat(guard.repair()).isNull();
            assertThat(guard.damaged()).isFalse();
            assertThat(ledger.admitting()).as("only when the loop has taken back what is in doubt").isFalse();
            guard.resume();
            assertThat(ledger.admitting()).isTrue();
            assertThat(last().kind()).isEqualTo(Kind.WEIGHT);
            assertThat(last().result()).isEqualTo(Result.REPAIRED);
            assertThat(last().detail()).startsWith("tensor=" + regions.get(r).name().replace(' ', '_') + " block=");
            assertThat(scrub()).isTrue();
        }
        assertThat(ledger.state().weightFaults()).isEqualTo(INJECTIONS);
        assertThat(woken).isEqualTo(INJECTIONS);
        assertThat(table.problem(0)).isNull();
        guard.checkCompressed();
    }

    @ParameterizedTest
    @ValueSource(strings = {"int8", "packed"})
    void whatWasRepairedIsHandedToTheKernelsAgain(String format) throws IOException {
        backend.close();
        var kernels = new ApartKernels();
        backend = new Backend("apart", "for a test", kernels);
        load(format);
        int loaded = kernels.adoptions().size();
        assertThat(kernels.adoptions()).as("nothing is handed over twice").doesNotHaveDuplicates();
        for (Region region : guard.regions()) {
            clock.nanos += TimeUnit.HOURS.toNanos(25);
            int before = kernels.adoptions().size();
            Damage.flip(region, 70);
            assertThat(scrub()).isFalse();
            assertThat(guard.repair()).isNull();
            guard.resume();
            List<Object> again = kernels.adoptions().subList(before, kernels.adoptions().size());
            switch (region) {
                case MatrixRegion matrix -> assertThat(again).containsExactly(matrix.matrix());
                case ArrayRegion array when region.format().equals("panels") -> assertThat(again).hasSize(1);
                case ArrayRegion array -> assertThat(again).hasSize(region.format().equals("f32") ? 1 : 0);
                case CopyRegion copy -> assertThat(copy.name()).as("these kernels read the originals").isNull();
            }
            assertThat(kernels.adoptions().subList(0, loaded)).containsAll(again);
        }
    }

    @Test
    void theSuspectStepsBeginBehindTheLastGoodCheckOfThatBlock() throws IOException {
        load("bf16");
        steps = 41;
        assertThat(scrub()).isTrue();
        ledger.beginStep(42);
        steps = 43;
        for (int block = 0; block < guard.count() / 2; block++) {
            assertThat(guard.check(block)).isTrue();
        }
        Damage.flip(guard.regions().getFirst(), 100);
        Damage.flip(guard.regions().getLast(), 100);
        ledger.beginStep(50);
        steps = 50;
        assertThat(guard.check(0)).isFalse();
        assertThat(ledger.doubtedFrom()).isEqualTo(44);
        assertThat(guard.repair()).isNull();
        assertThat(ledger.doubtedFrom()).as("the repair looks at all blocks").isEqualTo(42);
        guard.resume();
        assertThat(ledger.doubtedFrom()).isEqualTo(IntegrityEvent.NO_STEP);
        List<IntegrityEvent> faults = ledger.events(0).stream().filter(e -> e.kind() == Kind.WEIGHT).toList();
        assertThat(faults).extracting(IntegrityEvent::suspectFromStep).containsExactly(44L, 42L);
        assertThat(faults).extracting(IntegrityEvent::code).containsOnly("WEIGHT_BLOCK");
        assertThat(faults.getFirst().detail()).matches("tensor=model.embed_tokens.weight block=0 format=bf16 first_byte=0 bytes=\\d+");
        Damage.flip(guard.regions().get(1), 5);
        assertThat(guard.check(guard.regions().getFirst().blocks())).isFalse();
        assertThat(ledger.doubtedFrom()).as("a repair checks all").isEqualTo(51);
    }

    @Test
    void theSecondFaultOfATensorWithinADayRefuses() throws IOException {
        load("int8");
        Region region = region("layers.0.self_attn.q_proj.weight");
        Damage.flip(region, 77);
        scrub();
        assertThat(guard.repair()).isNull();
        guard.resume();
        clock.nanos += TimeUnit.HOURS.toNanos(23);
        Damage.flip(region, 4_321);
        scrub();
        steps = 9;
        assertThat(guard.repair()).isEqualTo("integrity: WEIGHT_REPEATED: weights: model.layers.0.self_attn.q_proj.weight,"
                + " block 0: damaged for the second time within 24 hours; take this machine out of service and test its"
                + " memory");
        assertThat(ledger.refusal()).contains("WEIGHT_REPEATED");
        assertThat(ledger.admitting()).isFalse();
        assertThat(guard.damaged()).isTrue();
        assertThat(guard.check(0)).as("nothing is checked any more").isFalse();
        assertThat(last().result()).isEqualTo(Result.REFUSED);
        assertThat(last().code()).isEqualTo("WEIGHT_REPEATED");
        assertThat(last().suspectFromStep()).isEqualTo(1);
    }

    @Test
    void aFileThatIsNoLongerWhatWasLoadedRefuses() throws IOException {
        load("bf16");
        Path file = model.resolve("model.safetensors");
        byte[] bytes = Files.readAllBytes(file);
        bytes[bytes.length - 1] ^= 1;
        Files.write(file, bytes);
        Damage.flip(region("layers.0.self_attn.q_proj.weight"), 3);
        scrub();
        assertThat(guard.repair()).matches("integrity: MODEL_FILE_CHANGED: model.safetensors: expected sha256 [0-9a-f]{64} as at"
                + " the start, got [0-9a-f]{64}; weights in memory are damaged and cannot be repaired from it: restore the"
                + " file and start again");
        assertThat(ledger.events(0)).extracting(IntegrityEvent::kind).endsWith(Kind.WEIGHT, Kind.MODEL_FILE);
        assertThat(ledger.events(0)).extracting(IntegrityEvent::code).endsWith("WEIGHT_BLOCK", "MODEL_FILE_CHANGED");
        assertThat(last().result()).isEqualTo(Result.REFUSED);
        assertThat(last().detail()).matches("file=model.safetensors expected_sha256=[0-9a-f]{64} got_sha256=[0-9a-f]{64}");
        assertThat(ledger.state().weightFaults()).isOne();
    }

    @Test
    void aFileThatIsGoneRefuses() throws IOException {
        load("bf16");
        Files.delete(model.resolve("model.safetensors"));
        Damage.flip(region("layers.1.mlp.down_proj.weight"), 3);
        scrub();
        assertThat(guard.repair()).startsWith("integrity: MODEL_MISSING: ")
                .endsWith("; weights in memory are damaged and cannot be repaired from it");
        assertThat(last().kind()).isEqualTo(Kind.MODEL_FILE);
    }

    /// What the config alone says needs no file.
    @Test
    void frequenciesAreRepairedWithoutTheWeights() throws IOException {
        load("bf16");
        Damage.flip(region("rotary frequencies"), 62);
        assertThat(scrub()).isFalse();
        assertThat(guard.repair()).isNull();
        guard.resume();
        assertThat(scrub()).isTrue();
    }

    @Test
    void aDamagedCopyOfTheTableIsRestoredAndNothingIsInDoubt() throws IOException {
        load("int4");
        Random random = new Random(3);
        for (int i = 0; i < INJECTIONS; i++) {
            int copy = random.nextInt(2);
            Damage.flip(table.copy(copy), random.nextLong(8 * table.copy(copy).byteSize()));
            assertThat(scrub()).isTrue();
            assertThat(table.problem(copy)).isNull();
        }
        assertThat(ledger.state().weightFaults()).isZero();
        assertThat(ledger.doubtedFrom()).isEqualTo(IntegrityEvent.NO_STEP);
        List<IntegrityEvent> meta = ledger.events(0).stream().filter(e -> e.kind() == Kind.META).toList();
        assertThat(meta).allMatch(e -> e.code().equals("BT_DAMAGED") && e.result() == Result.REPAIRED
                && e.detail().equals("restored_from=other_copy"));
    }

    @Test
    void theTableOfOtherWeightsIsNotBelieved() throws IOException {
        load("bf16");
        try (BlockTable other = BlockTable.of("another", weights.regions(), backend.kernels()::forEach)) {
            table.copy(1).copyFrom(other.copy(0));
        }
        assertThat(scrub()).isTrue();
        assertThat(ledger.events(0).getFirst().code()).isEqualTo("BT_FOREIGN");
        assertThat(table.copy(0).mismatch(table.copy(1))).isEqualTo(-1);
    }

    @Test
    void aLostTableIsBuiltFromSoundWeights() throws IOException {
        load("packed");
        table.copy(0).fill((byte) 0);
        table.copy(1).fill((byte) 9);
        assertThat(scrub()).isTrue();
        assertThat(ledger.events(0).getFirst().detail()).isEqualTo("restored_from=weights");
        assertThat(scrub()).isTrue();
    }

    @ParameterizedTest
    @ValueSource(strings = {"packed", "int4", "packed-packed"})
    void aLostTableOfDamagedWeightsIsBuiltFromTheFiles(String format) throws IOException {
        load(format);
        byte[] whole = table.copy(0).toArray(ValueLayout.JAVA_BYTE);
        table.copy(0).fill((byte) 0);
        table.copy(1).fill((byte) 9);
        Damage.flip(region("layers.0.mlp.up_proj.weight"), 1_000);
        assertThat(scrub()).isFalse();
        assertThat(guard.repair()).isNull();
        guard.resume();
        assertThat(MemorySegment.ofArray(whole).mismatch(table.copy(0))).isEqualTo(-1);
        assertThat(ledger.events(0)).extracting(IntegrityEvent::kind).contains(Kind.META, Kind.WEIGHT);
        assertThat(scrub()).isTrue();
    }

    @Test
    void aLostTableThatTheFilesDoNotGiveRefuses() throws IOException {
        load("bf16");
        table.copy(0).fill((byte) 0);
        table.copy(1).fill((byte) 9);
        Damage.flip(region("layers.0.mlp.up_proj.weight"), 1_000);
        byte[] bytes = Files.readAllBytes(model.resolve("model.safetensors"));
        bytes[bytes.length - 1] ^= 1;
        Files.write(model.resolve("model.safetensors"), bytes);
        assertThat(scrub()).isFalse();
        assertThat(guard.repair()).contains("MODEL_FILE_CHANGED");
    }

    @Test
    void packedWeightsAreCheckedBeforeTheirFirstUse() throws IOException {
        load("packed");
        guard.checkCompressed();
        Random random = new Random(8);
        List<Region> packed = guard.regions().stream().filter(Region::compressed).toList();
        for (int i = 0; i < INJECTIONS_BEFORE_USE; i++) {
            MemorySegment data = ((MatrixRegion) packed.get(random.nextInt(packed.size()))).matrix().data();
            long bit = random.nextLong(8 * data.byteSize());
            Damage.flip(data, bit);
            assertThatThrownBy(guard::checkCompressed)
                    .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("WEIGHT_DECODED"))
                    .hasMessageMatching("weights: \\S+, block \\d+: expected packed weights that decode to those of the"
                            + " file, got others; start again, and replace this machine if it returns");
            Damage.flip(data, bit);
        }
    }

    @Test
    void theAgeIsThatOfTheOldestCheck() throws IOException {
        load("bf16");
        clock.nanos += TimeUnit.SECONDS.toNanos(10);
        assertThat(guard.ageMs()).isEqualTo(10_000);
        for (int block = 1; block < guard.count(); block++) {
            guard.check(block);
        }
        assertThat(guard.ageMs()).isEqualTo(10_000);
        guard.check(0);
        assertThat(guard.ageMs()).isZero();
    }
}
