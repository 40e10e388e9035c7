package millrace.engine.kernel.vector;

import static java.nio.ByteOrder.LITTLE_ENDIAN;

import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;
import millrace.engine.kernel.Memory;

/// Width of the machine's vectors, at most 512 bits, and the few loads that all loops share.
///
/// The system property `millrace.vector.bits` narrows the width; it is there for tests, which so run the forms of
/// smaller machines.
final class Lanes {
    static final VectorSpecies<Float> F = species();
    static final VectorSpecies<Integer> I = VectorSpecies.of(int.class, F.vectorShape());
    /// Lanes of a vector: 4, 8 or 16.
    static final int L = F.length();
    /// Vectors that 16 lanes take.
    static final int PARTS = 16 / L;

    private Lanes() {}

    private static VectorSpecies<Float> species() {
        int preferred = FloatVector.SPECIES_PREFERRED.vectorBitSize();
        int bits = Math.min(Math.min(preferred, 512), Integer.getInteger("millrace.vector.bits", 512));
        return VectorSpecies.of(float.class, VectorShape.forBitSize(Math.max(bits, 128)));
    }

    /// One vector of words at an absolute address.
    static IntVector words(long address) {
        return IntVector.fromMemorySegment(I, Memory.ALL, address, LITTLE_ENDIAN);
    }

    static FloatVector floats(long address) {
        return FloatVector.fromMemorySegment(F, Memory.ALL, address, LITTLE_ENDIAN);
    }

    static FloatVector at(float[] x, int i) {
        return FloatVector.fromArray(F, x, i);
    }

    static FloatVector all(float value) {
        return FloatVector.broadcast(F, value);
    }

    static FloatVector zero() {
        return FloatVector.zero(F);
    }

    /// The even depth of a word of two BF16.
    static FloatVector even(IntVector word) {
        return word.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats();
    }

    /// The odd depth of a word of two BF16.
    static FloatVector odd(IntVector word) {
        return word.and(0xFFFF_0000).reinterpretAsFloats();
    }

    /// Depth 0 (`shift` 16) or 1 (`shift` 0) of a word of two BF16.
    static FloatVector half(IntVector word, int shift) {
        return word.lanewise(VectorOperators.LSHL, shift).and(0xFFFF_0000).reinterpretAsFloats();
    }
}
