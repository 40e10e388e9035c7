package millrace.streams.registry;

/// How the subject of a record is named: after the topic, the record or both.
public enum SubjectNames {
    TOPIC,
    RECORD,
    TOPIC_RECORD;

    /// The subject of records named `record` (namespace included) on `topic`.
    public String subject(String topic, boolean isKey, String record) {
        return switch (this) {
            case TOPIC -> topic + (isKey ? "-key" : "-value");
            case RECORD -> record;
            case TOPIC_RECORD -> topic + "-" + record;
        };
    }
}
