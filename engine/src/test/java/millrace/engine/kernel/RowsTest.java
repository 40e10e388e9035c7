package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;

class RowsTest {
    @Test
    void viewsShouldFindTheirRowsOnTheHeapAndInOtherMemory() {
        Rows there = Rows.device(new float[0], 4096, 3, 10);
        assertThat(there.capacity()).isEqualTo(3);
        assertThat(there.addressAt(2)).isEqualTo(4096 + 4 * 20);
        Rows columns = there.columns(4, 5);
        assertThat(columns.at(1)).isEqualTo(14);
        assertThat(columns.addressAt(1)).isEqualTo(4096 + 4 * 14);
        assertThat(columns.capacity()).isEqualTo(3);
        Rows both = Rows.device(new float[30], 4096, 3, 10);
        assertThat(both.columns(4, 5).values()).isSameAs(both.values());
        assertThat(Rows.allocate(3, 10).address()).isZero();
        assertThat(new Rows(new float[30], 4, 10, 5).capacity()).isEqualTo(3);
    }

    @Test
    void sidesOfDifferentLengthShouldBeRefused() {
        assertThatThrownBy(() -> Rows.device(new float[29], 4096, 3, 10))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("rows: 30 floats, 29 on the heap, address 4096");
        assertThatThrownBy(() -> Rows.device(new float[0], 0, 3, 10))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("rows: 30 floats, 0 on the heap, address 0");
    }
}
