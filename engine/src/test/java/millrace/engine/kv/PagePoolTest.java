package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.SplittableRandom;
import millrace.engine.KvFormat;
import millrace.engine.kernel.Memory;
import org.junit.jupiter.api.Test;

final class PagePoolTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.BF16, 2, 2, 16);

    @Test
    void budgetShouldGiveWholePages() {
        try (var pool = new PagePool(LAYOUT, LAYOUT.pageBytes() * 5 + 100)) {
            assertThat(pool.pageCount()).isEqualTo(5);
            assertThat(pool.freePages()).isEqualTo(5);
            assertThat(pool.capacityTokens()).isEqualTo(80);
            assertThat(pool.pageTokens()).isEqualTo(16);
        }
    }

    @Test
    void budgetBelowOnePageShouldBeRefused() {
        assertThatThrownBy(() -> new PagePool(LAYOUT, 100))
                .hasMessage("KV cache: expected a budget of at least 4096 bytes (one page of 16 tokens), got 100");
    }

    @Test
    void exhaustionShouldBeAValueAndChangeNothing() {
        try (var pool = new PagePool(LAYOUT, LAYOUT.pageBytes() * 3)) {
            var first = new PageTable(pool);
            var second = new PageTable(pool);
            assertThat(first.ensure(17)).isTrue();
            assertThat(second.ensure(17)).isFalse();
            assertThat(second.pageCount()).isZero();
            assertThat(second.length()).isZero();
            assertThat(pool.freePages()).isEqualTo(1);
            assertThat(second.ensure(16)).isTrue();
            assertThat(first.ensure(32)).isTrue();
            assertThat(first.ensure(33)).isFalse();
            assertThat(first.length()).isEqualTo(32);
            second.release();
            assertThat(first.ensure(33)).isTrue();
            assertThat(first.pageCount()).isEqualTo(3);
        }
    }

    @Test
    void epochShouldChangeWheneverAPageIsHandedOut() {
        try (var pool = new PagePool(LAYOUT, LAYOUT.pageBytes())) {
            var table = new PageTable(pool);
            var seen = new HashSet<Integer>();
            for (int i = 0; i < 10; i++) {
                assertThat(table.ensure(1)).isTrue();
                assertThat(table.page(0)).isZero();
                assertThat(seen.add(table.epoch(0))).isTrue();
                table.release();
            }
        }
    }

    @Test
    void pageFreedTwiceShouldBeRefused() {
        try (var pool = new PagePool(LAYOUT, LAYOUT.pageBytes())) {
            int page = pool.allocate();
            pool.free(page);
            assertThatThrownBy(() -> pool.free(page)).hasMessage("KV cache: page 0 was freed twice");
        }
    }

    @Test
    void pagesShouldNeverOverlap() {
        long seed = 11;
        var random = new SplittableRandom(seed);
        // Large pages, so that the pool needs several slabs.
        var layout = KvLayout.grouped(KvFormat.F32, 20, 8, 128);
        try (var pool = new PagePool(layout, layout.pageBytes() * 30)) {
            var tables = new ArrayList<PageTable>();
            for (int i = 0; i < 6; i++) {
                tables.add(new PageTable(pool));
            }
            for (int step = 0; step < 300; step++) {
                PageTable table = tables.get(random.nextInt(tables.size()));
                if (random.nextInt(4) == 0) {
                    table.release();
                } else {
                    table.ensure(1 + random.nextInt(160));
                }
                var held = new HashSet<Integer>();
                int count = 0;
                for (PageTable each : tables) {
                    for (int i = 0; i < each.pageCount(); i++) {
                        held.add(each.page(i));
                        count++;
                        assertThat(each.addresses()[i] % 64).isZero();
                        Memory.ALL.set(ValueLayout.JAVA_INT, each.addresses()[i], each.page(i));
                        Memory.ALL.set(
                                ValueLayout.JAVA_INT, each.addresses()[i] + layout.pageBytes() - 4, each.page(i));
                    }
                }
                assertThat(held).as("step %d, seed %d", step, seed).hasSize(count);
                assertThat(pool.freePages()).isEqualTo(30 - count);
                for (PageTable each : tables) {
                    for (int i = 0; i < each.pageCount(); i++) {
                        assertThat(Memory.ALL.get(ValueLayout.JAVA_INT, each.addresses()[i])).isEqualTo(each.page(i));
                    }
                }
            }
        }
    }
}
