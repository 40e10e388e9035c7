package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.util.List;
import java.util.stream.IntStream;
import millrace.engine.format.WeightFormat;
import org.junit.jupiter.api.Test;

class RoutingTest {
    private static final RouterSpec SPEC = new RouterSpec(6, 2, 2, 1, true, 1);

    @Test
    void partsOfADeviceShouldNotMeet() {
        Routing routing = Routing.device(33, SPEC, 512);
        assertThat(routing.chosenAddress()).isEqualTo(512);
        assertThat(routing.weightsAddress()).isEqualTo(512 + 512);
        assertThat(routing.slotsAddress()).isEqualTo(512 + 2 * 512);
        assertThat(routing.sourcesAddress()).isEqualTo(512 + 3 * 512);
        assertThat(routing.firstSlotAddress()).isEqualTo(512 + 4 * 512);
        assertThat(routing.pairsAddress()).isEqualTo(512 + 4 * 512 + 6 * 4);
        assertThat(Routing.bytes(33, SPEC)).isEqualTo(4 * 512 + 256);
        assertThat(routing.isOnHeap()).isFalse();
        assertThatThrownBy(() -> Routing.device(33, SPEC, 128)).hasMessage("routing: address 128");
    }

    /// Where the host knows who chose what, the products are single ones; elsewhere one entry stands for all.
    @Test
    void productsOfExpertsShouldBeSingleOnlyWhereTheHostKnowsThem() {
        try (Arena arena = Arena.ofConfined()) {
            List<Matrix> matrices = IntStream.range(0, 6)
                    .mapToObj(e -> Matrix.allocate(arena, WeightFormat.BF16, 20, 8))
                    .toList();
            Experts experts = new Experts(matrices);
            Routing here = Routing.onHeap(4, SPEC);
            System.arraycopy(new int[] {0, 0, 3, 3, 3, 8, 8}, 0, here.firstSlot(), 0, 7);
            Projections list = new Projections(7);
            list.addExperts(Rows.allocate(8, 20), experts, Rows.allocate(8, 8), here, 4);
            assertThat(list.count()).isEqualTo(2);
            assertThat(list.experts(0)).isNull();
            assertThat(list.matrix(0)).isSameAs(matrices.get(1));
            assertThat(list.rows(0)).isEqualTo(3);
            assertThat(list.matrix(1)).isSameAs(matrices.get(4));
            assertThat(list.inputRow(1)).isEqualTo(3);
            assertThat(list.rows(1)).isEqualTo(5);

            Routing there = Routing.device(4, SPEC, 4096);
            list.clear().addExperts(Rows.allocate(8, 20), experts, Rows.allocate(8, 8), there, 3);
            assertThat(list.count()).isOne();
            assertThat(list.experts(0)).isSameAs(experts);
            assertThat(list.routing(0)).isSameAs(there);
            assertThat(list.rows(0)).isEqualTo(6);
            list.clear().add(Rows.allocate(8, 20), matrices.getFirst(), null, Rows.allocate(8, 8), 1);
            assertThat(list.experts(0)).as("nothing of the run before").isNull();
            assertThatThrownBy(() -> list.addExperts(Rows.allocate(5, 20), experts, Rows.allocate(8, 8), there, 3))
                    .hasMessage("projection: 6 slots from 8 to 5 rows");
            assertThatThrownBy(() -> list.addExperts(Rows.allocate(8, 21), experts, Rows.allocate(8, 8), there, 3))
                    .hasMessage("projection: 6 experts of 20 × 8 from width 8 to width 21, 6 routed");
        }
    }

    @Test
    void expertsOfDifferentShapesShouldBeRefused() {
        try (Arena arena = Arena.ofConfined()) {
            List<Matrix> two = List.of(
                    Matrix.allocate(arena, WeightFormat.BF16, 20, 8), Matrix.allocate(arena, WeightFormat.INT8, 20, 9));
            assertThatThrownBy(() -> new Experts(two)).hasMessage("experts: 20 × 8 bf16 beside 20 × 9 int8");
        }
    }

    @Test
    void impossibleChoicesShouldBeRefused() {
        assertThatThrownBy(() -> new RouterSpec(6, 2, 4, 1, true, 1))
                .hasMessage("router: 6 experts in 4, keep 1");
        assertThatThrownBy(() -> new RouterSpec(6, 4, 2, 1, true, 1))
                .hasMessage("router: 4 of 6 experts in 2 groups, keep 1");
    }
}
