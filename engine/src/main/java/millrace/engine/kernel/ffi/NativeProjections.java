package millrace.engine.kernel.ffi;

import java.lang.foreign.MemorySegment;
import millrace.engine.kernel.Matrix;

/// The calls of matrix products, a method for each format.
///
/// All say the same but for the handle. Each names its own because a handle must be a constant where it is called: only
/// then is the call compiled in place. As an argument it would be one at the mercy of the compiler's inlining.
final class NativeProjections {
    private NativeProjections() {}

    static void f32(
            Matrix w,
            int from,
            int panels,
            MemorySegment x,
            long xOffset,
            long xStride,
            long rows,
            MemorySegment out,
            long o) {
        int last = from + panels - 1;
        try {
            Symbols.PROJECT_F32.invokeExact(
                    w.panelAddress(from),
                    w.panelAddress(Math.min(from + 1, last)),
                    w.panelAddress(Math.min(from + 2, last)),
                    w.panelAddress(last),
                    (long) panels,
                    (long) w.cols(),
                    x,
                    xOffset,
                    xStride,
                    rows,
                    out,
                    o);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void bf16(
            Matrix w,
            int from,
            int panels,
            MemorySegment x,
            long xOffset,
            long xStride,
            long rows,
            MemorySegment out,
            long o) {
        int last = from + panels - 1;
        try {
            Symbols.PROJECT_BF16.invokeExact(
                    w.panelAddress(from),
                    w.panelAddress(Math.min(from + 1, last)),
                    w.panelAddress(Math.min(from + 2, last)),
                    w.panelAddress(last),
                    (long) panels,
                    (long) w.cols(),
                    x,
                    xOffset,
                    xStride,
                    rows,
                    out,
                    o);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void packed(
            Matrix w,
            int from,
            int panels,
            MemorySegment x,
            long xOffset,
            long xStride,
            long rows,
            MemorySegment out,
            long o) {
        int last = from + panels - 1;
        try {
            Symbols.PROJECT_PACKED.invokeExact(
                    w.panelAddress(from),
                    w.panelAddress(Math.min(from + 1, last)),
                    w.panelAddress(Math.min(from + 2, last)),
                    w.panelAddress(last),
                    (long) panels,
                    (long) w.cols(),
                    x,
                    xOffset,
                    xStride,
                    rows,
                    out,
                    o);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void int8(
            Matrix w,
            int from,
            int panels,
            MemorySegment x,
            long xOffset,
            long xStride,
            long rows,
            MemorySegment out,
            long o) {
        int last = from + panels - 1;
        try {
            Symbols.PROJECT_INT8.invokeExact(
                    w.panelAddress(from),
                    w.panelAddress(Math.min(from + 1, last)),
                    w.panelAddress(Math.min(from + 2, last)),
                    w.panelAddress(last),
                    (long) panels,
                    (long) w.cols(),
                    x,
                    xOffset,
                    xStride,
                    rows,
                    out,
                    o);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void int4(
            Matrix w,
            int from,
            int panels,
            MemorySegment x,
            long xOffset,
            long xStride,
            long rows,
            MemorySegment out,
            long o) {
        int last = from + panels - 1;
        try {
            Symbols.PROJECT_INT4.invokeExact(
                    w.panelAddress(from),
                    w.panelAddress(Math.min(from + 1, last)),
                    w.panelAddress(Math.min(from + 2, last)),
                    w.panelAddress(last),
                    (long) panels,
                    (long) w.cols(),
                    x,
                    xOffset,
                    xStride,
                    rows,
                    out,
                    o);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }

    static void fp8(
            Matrix w,
            int from,
            int panels,
            MemorySegment x,
            long xOffset,
            long xStride,
            long rows,
            MemorySegment out,
            long o) {
        int last = from + panels - 1;
        try {
            Symbols.PROJECT_FP8.invokeExact(
                    w.panelAddress(from),
                    w.panelAddress(Math.min(from + 1, last)),
                    w.panelAddress(Math.min(from + 2, last)),
                    w.panelAddress(last),
                    (long) panels,
                    (long) w.cols(),
                    x,
                    xOffset,
                    xStride,
                    rows,
                    out,
                    o);
        } catch (Throwable e) {
            throw Symbols.wrapped(e);
        }
    }
}
