package millrace.streams;

/// The sizes that keep every record below what producer and broker accept.
///
/// A record that is refused for its size ends the stream thread under exactly-once and comes back after the restart,
/// so every record is measured before it is forwarded.
final class ProducerLimits {
    /// What a record may carry beside the prompt's bytes: the answer, headers, framing.
    private static final int OVERHEAD_BYTES = 256 << 10;

    /// The most that the headers, and the key, of a prompt take on their way to an output.
    static final int MAX_COPIED_BYTES = 64 << 10;

    private ProducerLimits() {}

    /// The largest value that is forwarded.
    static int maxRecordBytes(ServiceConfig config) {
        return config.integer("intake.max.bytes");
    }

    /// `max.request.size` of the producer and `max.message.bytes` of the topics that the service creates.
    static int maxRequestBytes(ServiceConfig config) {
        return config.integer("intake.max.bytes") + OVERHEAD_BYTES;
    }
}
