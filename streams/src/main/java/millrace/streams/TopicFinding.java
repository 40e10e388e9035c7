package millrace.streams;

/// A setting of a topic that is not as it should be.
///
/// @param code stable: `TOPIC_MISSING`, `TOPIC_PARTITIONS`, `AUDIT_TOPIC_UNSAFE`, `SALTS_TOPIC_UNSAFE`, with which the
///     service refuses to start, or `TOPIC_WEAK`, with which it runs at a risk
/// @param setting a configuration key of Kafka's, or `partitions`, `replicas` or `topic`
/// @param why what it leads to
/// @param mend what to do: the value to set, where `setting` is a configuration key, else a sentence
public record TopicFinding(String code, String topic, String setting, String expected, String got, String why, String mend) {
    static final String MISSING = "TOPIC_MISSING";
    static final String PARTITIONS = "TOPIC_PARTITIONS";
    static final String EVIDENCE = "AUDIT_TOPIC_UNSAFE";
    static final String SALTS = "SALTS_TOPIC_UNSAFE";
    static final String WEAK = "TOPIC_WEAK";

    /// `topic: setting: expected X, got Y; what it leads to`.
    public String text() {
        return "topic " + topic + ": " + setting + ": expected " + expected + ", got " + got + (why.isEmpty() ? "" : "; " + why);
    }

    /// The command that mends it, or the sentence that says how.
    ///
    /// @param access options with which Kafka's commands reach the cluster, such as `--bootstrap-server b:9092`
    public String command(String access) {
        return switch (setting) {
            case "topic" -> mend;
            case "partitions" -> mend.matches("\\d+")
                    ? "kafka-topics.sh " + access + " --alter --topic " + topic + " --partitions " + mend
                    : mend;
            case "replicas" -> "kafka-reassign-partitions.sh " + access + " --execute --reassignment-json-file FILE,"
                    + " where FILE names " + mend + " brokers for each partition of " + topic;
            default -> "kafka-configs.sh " + access + " --entity-type topics --entity-name " + topic + " --alter --add-config "
                    + setting + "=" + (mend.contains(",") ? "[" + mend + "]" : mend);
        };
    }
}
