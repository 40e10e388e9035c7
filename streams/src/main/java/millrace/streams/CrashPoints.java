package millrace.streams;

/// Named places where a test kills the process without any clean-up.
///
/// The test property `millrace.test.crash` holds `name` or `name:n`: the n-th time that the place is reached, the
/// process halts. Unset, which it is outside tests, reaching a place costs one comparison with null.
final class CrashPoints {
    private static final String WISH = System.getProperty("millrace.test.crash");
    private static final String NAME = WISH == null ? "" : WISH.split(":", 2)[0];
    private static final java.util.concurrent.atomic.AtomicInteger LEFT =
            new java.util.concurrent.atomic.AtomicInteger(WISH == null || !WISH.contains(":") ? 1 : Integer.parseInt(WISH.split(":", 2)[1]));

    private CrashPoints() {}

    static void reach(String name) {
        if (WISH != null && NAME.equals(name) && LEFT.decrementAndGet() == 0) {
            Runtime.getRuntime().halt(137);
        }
    }
}
