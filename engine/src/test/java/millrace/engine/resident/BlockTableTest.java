package millrace.engine.resident;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import millrace.engine.format.WeightFormat;
import millrace.engine.kernel.Matrix;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

class BlockTableTest {
    private static final int INJECTIONS = 10_000;
    private final Arena arena = Arena.ofShared();

    @AfterEach
    void close() {
        arena.close();
    }

    private List<Region> all() {
        List<Region> regions = new ArrayList<>(TestRegions.arrays(1));
        for (WeightFormat format : WeightFormat.values()) {
            regions.addAll(TestRegions.of(arena, format));
        }
        return regions;
    }

    private static BlockTable table(List<Region> regions) {
        return BlockTable.of("a model", regions, TestRegions::oneByOne);
    }

    @Test
    void aBlockIsWholePanelsOfAtMostOneMebibyte() {
        Matrix matrix = Matrix.allocate(arena, WeightFormat.BF16, 16 * 40 + 3, 4096);
        var region = new MatrixRegion("w", matrix);
        assertThat(region.bytes()).isEqualTo(matrix.data().byteSize());
        assertThat(region.blocks()).isEqualTo(6);
        for (int b = 0; b < region.blocks(); b++) {
            assertThat(region.start(b) % matrix.panelBytes(0)).isZero();
            assertThat(region.bytes(b)).isEqualTo(b < 5 ? Region.BLOCK_BYTES : matrix.panelBytes(0));
        }
        var wide = new MatrixRegion("wide", Matrix.allocate(arena, WeightFormat.F32, 33, 20_000));
        assertThat(wide.blocks()).as("a panel is never cut").isEqualTo(3);
    }

    @Test
    void theTableIsAFunctionOfTheWeightsAndTheirPlaces() {
        List<Region> regions = all();
        try (BlockTable one = table(regions);
                BlockTable same = table(all());
                BlockTable reordered = table(regions.reversed());
                BlockTable other = BlockTable.of("another model", regions, TestRegions::oneByOne)) {
            assertThat(one.sha256()).matches("[0-9a-f]{64}").isEqualTo(same.sha256());
            assertThat(one.sha256()).isNotEqualTo(reordered.sha256()).isNotEqualTo(other.sha256());
            assertThat(one.blocks()).isEqualTo(BlockTable.count(regions));
            assertThat(one.bytes()).isEqualTo(2 * one.copy(0).byteSize());
            assertThat(one.copy(0).mismatch(one.copy(1))).isEqualTo(-1);
        }
    }

    static Stream<String> kinds() {
        return Stream.concat(Stream.of(WeightFormat.values()).map(WeightFormat::id), Stream.of("arrays"));
    }

    /// One pass over all blocks finds the one that differs, and no other.
    @ParameterizedTest
    @MethodSource("kinds")
    void everyFlippedBitIsFoundWithinOnePass(String kind) {
        WeightFormat format = WeightFormat.named(kind);
        List<Region> regions = format == null ? TestRegions.arrays(2) : TestRegions.of(arena, format);
        Random random = new Random(kind.hashCode());
        try (BlockTable table = table(regions)) {
            assertThat(differing(regions, table)).isEmpty();
            for (int i = 0; i < INJECTIONS; i++) {
                int r = random.nextInt(regions.size());
                Region region = regions.get(r);
                long bit = Damage.flip(region, random);
                List<Integer> found = differing(regions, table);
                assertThat(found).as("%s, bit %d, injection %d", region.name(), bit, i).hasSize(1);
                int first = BlockTable.count(regions.subList(0, r));
                int local = found.getFirst() - first;
                assertThat(bit / 8).isBetween(region.start(local), region.start(local) + region.bytes(local) - 1);
                Damage.flip(region, bit);
            }
            assertThat(differing(regions, table)).isEmpty();
        }
    }

    private static List<Integer> differing(List<Region> regions, BlockTable table) {
        List<Integer> found = new ArrayList<>();
        int block = 0;
        for (Region region : regions) {
            for (int b = 0; b < region.blocks(); b++, block++) {
                if (region.checksum(b) != table.checksum(block)) {
                    found.add(block);
                }
            }
        }
        return found;
    }

    @Test
    void packedBlocksDecodeToTheNumbersThatWerePacked() {
        for (Region region : TestRegions.of(arena, WeightFormat.PACKED)) {
            for (int b = 0; b < region.blocks(); b++) {
                assertThat(region.decodedChecksum(b)).isEqualTo(region.numbersChecksum(b));
                assertThat(region.numbersChecksum(b) != 0).isEqualTo(region.compressed());
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = WeightFormat.class, names = "PACKED", mode = EnumSource.Mode.EXCLUDE)
    void whatIsNotCompressedHasNoSecondChecksum(WeightFormat format) {
        Region region = TestRegions.of(arena, format).getFirst();
        assertThat(region.compressed()).isFalse();
        assertThat(region.numbersChecksum(0)).isZero();
        assertThat(region.decodedChecksum(0)).isZero();
    }

    @Test
    void everyFlippedBitOfTheTableIsFoundAndMadeGoodFromTheOtherCopy() {
        Random random = new Random(4);
        try (BlockTable table = table(all())) {
            for (int i = 0; i < INJECTIONS; i++) {
                int copy = random.nextInt(2);
                Damage.flip(table.copy(copy), random.nextLong(8 * table.copy(copy).byteSize()));
                BlockTable.Problem problem = table.problem(copy);
                assertThat(problem).as("injection %d", i).isNotNull();
                assertThat(problem.code()).isEqualTo("BT_DAMAGED");
                assertThat(table.problem(1 - copy)).isNull();
                table.restore(copy);
                assertThat(table.problem(copy)).isNull();
            }
        }
    }

    @Test
    void refusesTheTableOfOtherWeights() {
        List<Region> regions = all();
        try (BlockTable table = table(regions);
                BlockTable other = BlockTable.of("another model", regions, TestRegions::oneByOne)) {
            table.copy(1).copyFrom(other.copy(0));
            BlockTable.Problem problem = table.problem(1);
            assertThat(problem).isNotNull();
            assertThat(problem.code()).isEqualTo("BT_FOREIGN");
            assertThat(problem.message()).matches(
                    "block table, copy 2: expected that of the weights [0-9a-f]{64}, got that of [0-9a-f]{64}");
        }
    }

    @Test
    void aLostTableIsBuiltAgainOnlyFromTheVeryWeights() {
        List<Region> regions = all();
        try (BlockTable table = table(regions)) {
            byte[] whole = table.copy(0).toArray(java.lang.foreign.ValueLayout.JAVA_BYTE);
            table.copy(0).fill((byte) 1);
            table.copy(1).fill((byte) 2);
            Damage.flip(regions.get(2), 77);
            assertThat(table.rebuild(regions, regions::get, TestRegions::oneByOne)).isFalse();
            Damage.flip(regions.get(2), 77);
            assertThat(table.rebuild(regions, regions::get, TestRegions::oneByOne)).isTrue();
            assertThat(table.problem(0)).isNull();
            assertThat(table.problem(1)).isNull();
            assertThat(table.copy(1).toArray(java.lang.foreign.ValueLayout.JAVA_BYTE)).isEqualTo(whole);
        }
    }

    @Test
    void aRegionIsRestoredBlockByBlock() {
        for (WeightFormat format : WeightFormat.values()) {
            List<Region> regions = TestRegions.of(arena, format);
            List<Region> again = TestRegions.of(arena, format);
            for (int r = 0; r < regions.size(); r++) {
                int sum = regions.get(r).checksum(0);
                Damage.flip(regions.get(r), 13 * 8);
                assertThat(regions.get(r).checksum(0)).isNotEqualTo(sum);
                regions.get(r).restore(0, again.get(r));
                assertThat(regions.get(r).checksum(0)).isEqualTo(sum);
            }
        }
    }
}
