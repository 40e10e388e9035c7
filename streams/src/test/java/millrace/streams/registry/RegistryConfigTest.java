package millrace.streams.registry;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.net.URI;
import java.util.Map;
import millrace.schemas.Prompt;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RegistryConfigTest {
    @Test
    void readsSeveralUrlsWithPaths() {
        RegistryConfig config = RegistryConfig.of(
                Map.of("schema.registry.url", "http://a:8081, https://b/apis/ccompat/v7/", "unknown.key", "x"));
        assertThat(config.urls()).containsExactly(URI.create("http://a:8081"), URI.create("https://b/apis/ccompat/v7"));
        assertThat(config.authorization()).isNull();
    }

    @ParameterizedTest
    @ValueSource(strings = {"ftp://a", "file:///etc/passwd", "localhost:8081", "http://a?x=y", "http:///x", "jar:x"})
    void refusesUrlsOfAnotherKind(String url) {
        assertThatThrownBy(() -> RegistryConfig.of(Map.of("schema.registry.url", url)))
                .isInstanceOf(ConfigException.class)
                .hasMessageContaining("schema.registry.url: expected http or https, a host and no query");
    }

    @Test
    void refusesContradictions() {
        assertThatThrownBy(() -> RegistryConfig.of(
                        Map.of("schema.registry.url", "http://u:p@a", "bearer.auth.token", "t")))
                .hasMessage("bearer.auth.token: expected either a token or user and password, got both");
        assertThatThrownBy(() -> RegistryConfig.of(
                        Map.of("schema.registry.url", "http://a", "basic.auth.credentials.source", "USER_INFO")))
                .hasMessage("basic.auth.user.info: expected user:password, as basic.auth.credentials.source is"
                        + " USER_INFO, got nothing");
        assertThatThrownBy(() -> RegistryConfig.of(Map.of("schema.registry.url", "mock://a,http://b")))
                .hasMessage("schema.registry.url: a mock:// URL stands alone, got 2 URLs");
        assertThatThrownBy(() -> AvroSerdeConfig.of(Map.of("use.latest.version", true)))
                .hasMessage("auto.register.schemas: expected false together with use.latest.version or use.schema.id,"
                        + " got true");
        assertThatThrownBy(() -> AvroSerdeConfig.of(Map.of("specific.avro.reader", false)))
                .hasMessage("specific.avro.reader: expected true (records are of compiled-in classes), got false");
        assertThatThrownBy(() -> AvroSerdeConfig.of(Map.of("specific.avro.value.type", String.class)))
                .hasMessage("specific.avro.value.type: expected a class that Avro generated, got java.lang.String");
        assertThatThrownBy(() -> AvroSerdeConfig.of(Map.of("value.subject.name.strategy", "x.MyStrategy")))
                .hasMessage("value.subject.name.strategy: expected TopicNameStrategy, RecordNameStrategy or"
                        + " TopicRecordNameStrategy, got x.MyStrategy");
    }

    @Test
    void takesConfluentsStrategyClasses() {
        AvroSerdeConfig config = AvroSerdeConfig.of(Map.of(
                "value.subject.name.strategy", "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
                "key.subject.name.strategy", "io.confluent.kafka.serializers.subject.RecordNameStrategy",
                "specific.avro.value.type", Prompt.class));
        assertThat(config.valueSubjects().subject("t", false, "n.R")).isEqualTo("t-n.R");
        assertThat(config.keySubjects().subject("t", true, "n.R")).isEqualTo("n.R");
        assertThat(SubjectNames.TOPIC.subject("t", true, "n.R")).isEqualTo("t-key");
        assertThat(SubjectNames.TOPIC.subject("t", false, "n.R")).isEqualTo("t-value");
    }
}
