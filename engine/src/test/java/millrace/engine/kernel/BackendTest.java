package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import millrace.engine.BackendException;
import org.junit.jupiter.api.Test;

final class BackendTest {
    @Test
    void autoShouldTakeVectorsWhereTheModuleIs() {
        try (Backend backend = Backend.open("auto", 2)) {
            assertThat(backend.name()).isEqualTo("vector");
            assertThat(backend.reason()).matches("fastest of this JVM; (128|256|512) bits, 2 threads");
        }
    }

    @Test
    void autoShouldSayWhyItIsScalar() {
        try (Backend backend = Backend.open("auto", 1, false)) {
            assertThat(backend.name()).isEqualTo("scalar");
            assertThat(backend.reason())
                    .isEqualTo("the module jdk.incubator.vector is missing: start java with "
                            + "--add-modules jdk.incubator.vector; 1 thread");
        }
    }

    @Test
    void vectorAskedForAndMissingShouldStopTheStart() {
        assertThatThrownBy(() -> Backend.open("vector", 1, false))
                .isInstanceOfSatisfying(
                        BackendException.class, e -> assertThat(e.code()).isEqualTo("BACKEND_UNAVAILABLE"))
                .hasMessage("backend \"vector\": expected the module jdk.incubator.vector in this JVM, got none; "
                        + "start java with --add-modules jdk.incubator.vector");
    }

    @Test
    void unknownNameShouldBeRefused() {
        assertThatThrownBy(() -> Backend.open("cuda", 1))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("BACKEND_UNKNOWN"))
                .hasMessage("backend: expected auto, vector or scalar, got \"cuda\"");
    }
}
