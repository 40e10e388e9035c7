package millrace.engine.resident;

import java.lang.foreign.MemorySegment;
import java.util.Random;
import millrace.engine.format.Words;
import millrace.engine.kernel.Memory;
import millrace.engine.kernel.WeightCopy;

/// Flips bits of what is resident: the faults that tests put in. No part of the engine can.
public final class Damage {
    private Damage() {}

    /// Flips a bit of a region.
    public static void flip(Region region, long bit) {
        switch (region) {
            case MatrixRegion matrix -> flip(matrix.matrix().data(), bit);
            case ArrayRegion array -> {
                var bytes = array.read();
                int at = (int) (bit / 8);
                array.write(bytes.put(at, (byte) (bytes.get(at) ^ 1 << bit % 8)));
            }
            // The memory of the stand-in for a device is the process's.
            case CopyRegion copy ->
                flip(Memory.ALL.asSlice(((WeightCopy) copy.memory()).address(), copy.bytes()), bit);
        }
    }

    /// Flips any bit of a region.
    ///
    /// @return which
    public static long flip(Region region, Random random) {
        long bit = random.nextLong(8 * region.bytes());
        if (region.format().equals("panels") && bit / 8 % 9 == 8) {
            bit &= -8; // of a flag there is only one bit
        }
        flip(region, bit);
        return bit;
    }

    /// Flips a bit of memory.
    public static void flip(MemorySegment bytes, long bit) {
        Words.octet(bytes, bit / 8, (byte) (Words.octet(bytes, bit / 8) ^ 1 << bit % 8));
    }
}
