package millrace.engine.checkpoint;

import java.util.function.Supplier;
import millrace.engine.InvalidModelException;
import millrace.engine.format.ScaleException;

/// Turns what a codec says of a number into the refusal of a checkpoint.
final class Sound {
    private Sound() {}

    static <T> T check(String name, Supplier<T> packing) {
        try {
            return packing.get();
        } catch (IllegalArgumentException e) {
            throw new InvalidModelException(
                    e instanceof ScaleException ? "W_SCALE" : "MODEL_TENSOR_VALUE",
                    "weights: " + name + ": " + e.getMessage() + "; restore the checkpoint",
                    e);
        }
    }
}
