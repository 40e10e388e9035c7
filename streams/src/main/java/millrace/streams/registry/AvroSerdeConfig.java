package millrace.streams.registry;

import java.util.Locale;
import java.util.Map;
import millrace.streams.registry.server.SchemaTexts;
import org.apache.avro.specific.SpecificRecord;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.jspecify.annotations.Nullable;

/// How records find their schemas, under Confluent's names; used beside [RegistryConfig].
///
/// `schemaId` is null when it is not fixed by configuration.
public record AvroSerdeConfig(
        boolean autoRegister,
        boolean useLatestVersion,
        @Nullable Integer schemaId,
        boolean normalize,
        SubjectNames keySubjects,
        SubjectNames valueSubjects,
        @Nullable Class<?> keyType,
        @Nullable Class<?> valueType) {
    private static final String TOPIC_NAMES = "TopicNameStrategy";

    /// Every key, with type, default and meaning.
    public static final ConfigDef DEFINITION = new ConfigDef()
            .define("auto.register.schemas", Type.BOOLEAN, true, Importance.MEDIUM,
                    "Whether a schema that the subject does not have is registered; otherwise it must be there.")
            .define("use.latest.version", Type.BOOLEAN, false, Importance.LOW,
                    "Whether records are written with the subject's newest schema instead of the compiled-in one; "
                            + "needs auto.register.schemas=false.")
            .define("use.schema.id", Type.INT, -1, Importance.LOW,
                    "Id of the schema that records are written with; -1 for none. Needs auto.register.schemas=false.")
            .define("normalize.schemas", Type.BOOLEAN, false, Importance.LOW,
                    "Whether the registry compares schemas in normal form.")
            .define("key.subject.name.strategy", Type.STRING, TOPIC_NAMES, Importance.LOW,
                    "Subject of keys: TopicNameStrategy, RecordNameStrategy or TopicRecordNameStrategy, "
                            + "with or without Confluent's package name.")
            .define("value.subject.name.strategy", Type.STRING, TOPIC_NAMES, Importance.LOW,
                    "Subject of values: as key.subject.name.strategy.")
            .define("specific.avro.reader", Type.BOOLEAN, true, Importance.LOW,
                    "Records are of compiled-in classes; only true is supported.")
            .define("specific.avro.key.type", Type.CLASS, null, Importance.MEDIUM,
                    "Class of the keys that are read.")
            .define("specific.avro.value.type", Type.CLASS, null, Importance.MEDIUM,
                    "Class of the values that are read.");

    /// Reads the keys of [#DEFINITION] from a client's configuration; others are ignored.
    ///
    /// @throws ConfigException when a value is not acceptable or two contradict each other
    public static AvroSerdeConfig of(Map<String, ?> configs) {
        AbstractConfig config = new AbstractConfig(DEFINITION, configs, false);
        if (!config.getBoolean("specific.avro.reader")) {
            throw new ConfigException(
                    "specific.avro.reader: expected true (records are of compiled-in classes), got false");
        }
        int id = config.getInt("use.schema.id");
        return new AvroSerdeConfig(
                config.getBoolean("auto.register.schemas"),
                config.getBoolean("use.latest.version"),
                id < 0 ? null : id,
                config.getBoolean("normalize.schemas"),
                subjects(config, "key.subject.name.strategy"),
                subjects(config, "value.subject.name.strategy"),
                config.getClass("specific.avro.key.type"),
                config.getClass("specific.avro.value.type"));
    }

    public AvroSerdeConfig {
        if (autoRegister && (useLatestVersion || schemaId != null)) {
            throw new ConfigException("auto.register.schemas: expected false together with use.latest.version or"
                    + " use.schema.id, got true");
        }
        requireRecord("specific.avro.key.type", keyType);
        requireRecord("specific.avro.value.type", valueType);
    }

    private static void requireRecord(String key, @Nullable Class<?> type) {
        if (type != null && !SpecificRecord.class.isAssignableFrom(type)) {
            throw new ConfigException(key + ": expected a class that Avro generated, got " + type.getName());
        }
    }

    SubjectNames subjects(boolean isKey) {
        return isKey ? keySubjects : valueSubjects;
    }

    @Nullable Class<?> type(boolean isKey) {
        return isKey ? keyType : valueType;
    }

    private static SubjectNames subjects(AbstractConfig config, String key) {
        String name = config.getString(key).strip();
        return switch (name.substring(name.lastIndexOf('.') + 1).toLowerCase(Locale.ROOT)) {
            case "topicnamestrategy" -> SubjectNames.TOPIC;
            case "recordnamestrategy" -> SubjectNames.RECORD;
            case "topicrecordnamestrategy" -> SubjectNames.TOPIC_RECORD;
            default -> throw new ConfigException(key + ": expected TopicNameStrategy, RecordNameStrategy or"
                    + " TopicRecordNameStrategy, got " + SchemaTexts.quote(name, 100));
        };
    }
}
