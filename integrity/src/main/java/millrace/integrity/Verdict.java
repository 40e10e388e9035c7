package millrace.integrity;

import org.jspecify.annotations.Nullable;

/// What a check found: it holds, it does not, or it cannot be told from what was given.
public sealed interface Verdict {
    Verdict VERIFIED = new Verified();

    /// Everything that was looked at agrees.
    record Verified() implements Verdict {}

    /// Something does not agree: evidence of a fault or of tampering.
    ///
    /// @param code stable, such as `LOG_PREV_LEAF`; see docs/audit-format.md
    /// @param what the thing that was checked
    /// @param expected the value that would have been right, a hash in hexadecimal where it is one
    /// @param got the value that was found
    /// @param at where in Kafka, null where there is no such place
    record Refuted(String code, String what, String expected, String got, @Nullable Place at) implements Verdict {
        public Refuted(String code, String what, Object expected, Object got) {
            this(code, what, expected.toString(), got.toString(), null);
        }

        public Refuted at(Place place) {
            return new Refuted(code, what, expected, got, place);
        }

        @Override
        public String toString() {
            String where = at == null ? "" : at + ": ";
            return "%s%s: %s: expected %s, got %s".formatted(where, code, what, expected, got);
        }
    }

    /// Not enough was given to decide, such as leaves that a signed checkpoint covers and that have not arrived.
    record Undecided(String code, String why) implements Verdict {
        @Override
        public String toString() {
            return code + ": " + why;
        }
    }

    /// One record in Kafka.
    ///
    /// @param offset -1 for the partition as a whole
    record Place(String topic, int partition, long offset) {
        @Override
        public String toString() {
            return offset < 0 ? "%s-%d".formatted(topic, partition) : "%s-%d@%d".formatted(topic, partition, offset);
        }
    }

    default boolean ok() {
        return this instanceof Verified;
    }
}
