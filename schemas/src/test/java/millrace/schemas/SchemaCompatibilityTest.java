package millrace.schemas;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.SchemaCompatibilityType;
import org.junit.jupiter.api.Test;

/// Records outlive the program that wrote them: every released schema must read what the current one writes, and the
/// other way round.
class SchemaCompatibilityTest {
    private static final Path AVRO = Path.of("src/main/avro");

    /// Files that others name; they must be parsed first.
    private static final List<String> FIRST = List.of("Hash.avsc", "FinishReason.avsc", "Sampling.avsc", "ToolCall.avsc");

    private static Map<String, Schema> read(Path directory) throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.list(directory)) {
            files = new ArrayList<>(all.filter(file -> file.toString().endsWith(".avsc")).toList());
        }
        files.sort(Comparator.comparing((Path file) -> !FIRST.contains(file.getFileName().toString()))
                .thenComparing(file -> FIRST.indexOf(file.getFileName().toString()))
                .thenComparing(Path::toString));
        Schema.Parser parser = new Schema.Parser();
        Map<String, Schema> schemas = new TreeMap<>();
        for (Path file : files) {
            Schema schema = parser.parse(Files.readString(file));
            schemas.put(schema.getFullName(), schema);
        }
        return schemas;
    }

    private static List<Path> releases() throws IOException {
        try (Stream<Path> all = Files.list(AVRO.resolve("frozen"))) {
            return all.filter(Files::isDirectory).sorted().toList();
        }
    }

    @Test
    void everyReleaseReadsTheCurrentAndTheCurrentReadsEveryRelease() throws IOException {
        Map<String, Schema> current = read(AVRO);
        assertThat(releases()).isNotEmpty();
        for (Path release : releases()) {
            read(release).forEach((name, frozen) -> {
                assertThat(current).as("records of %s", release).containsKey(name);
                assertCompatible(name + ": current reads " + release, current.get(name), frozen);
                assertCompatible(name + ": " + release + " reads current", frozen, current.get(name));
            });
        }
    }

    private static void assertCompatible(String what, Schema reader, Schema writer) {
        var result = SchemaCompatibility.checkReaderWriterCompatibility(reader, writer).getResult();
        assertThat(result.getIncompatibilities()).as(what).isEmpty();
        assertThat(result.getCompatibility()).as(what).isEqualTo(SchemaCompatibilityType.COMPATIBLE);
    }

    /// The check that protects the check: a change that breaks readers is seen.
    @Test
    void aFieldWithoutADefaultWouldBeSeen() throws IOException {
        Schema current = read(AVRO).get("millrace.schemas.CheckpointRecord");
        List<Schema.Field> fields = new ArrayList<>();
        current.getFields().forEach(field -> fields.add(new Schema.Field(field, field.schema())));
        fields.add(new Schema.Field("added", Schema.create(Schema.Type.LONG), "No default.", null));
        Schema changed =
                Schema.createRecord(current.getName(), current.getDoc(), current.getNamespace(), false, fields);
        assertThat(SchemaCompatibility.checkReaderWriterCompatibility(changed, current).getType())
                .isEqualTo(SchemaCompatibilityType.INCOMPATIBLE);
    }

    @Test
    void theCatalogueHoldsTheFilesSchemas() throws IOException {
        Map<String, Schema> files = read(AVRO);
        for (Schemas entry : Schemas.all()) {
            assertThat(Schemas.fingerprint(files.get(entry.fullName()))).as(entry.fullName())
                    .isEqualTo(entry.fingerprint());
            assertThat(Schemas.byFullName(entry.fullName())).contains(entry);
        }
        assertThat(Schemas.byFullName("millrace.schemas.Nothing")).isEmpty();
    }

    /// Who reads without a registry tries these, so none may be missing.
    @Test
    void theCatalogueHoldsEveryRelease() throws IOException {
        for (Path release : releases()) {
            read(release).forEach((name, frozen) -> Schemas.byFullName(name).ifPresent(entry ->
                    assertThat(entry.versions()).extracting(version -> HexFormat.of().formatHex(Schemas.fingerprint(version)))
                            .as("%s of %s", name, release)
                            .startsWith(entry.fingerprintHex())
                            .contains(HexFormat.of().formatHex(Schemas.fingerprint(frozen)))
                            .doesNotHaveDuplicates()));
        }
        assertThat(Schemas.ATTESTATION.versions()).hasSize(4);
        assertThat(Schemas.PROMPT.versions()).as("unchanged in the first three").hasSize(2);
    }

    @Test
    void everyFieldAndTypeSaysWhatItIs() throws IOException {
        Set<String> seen = new HashSet<>();
        read(AVRO).values().forEach(schema -> assertDocumented(schema, seen));
    }

    private static void assertDocumented(Schema schema, Set<String> seen) {
        switch (schema.getType()) {
            case RECORD -> {
                if (seen.add(schema.getFullName())) {
                    assertThat(schema.getDoc()).as(schema.getFullName()).isNotBlank();
                    for (Schema.Field field : schema.getFields()) {
                        assertThat(field.doc()).as("%s.%s", schema.getFullName(), field.name()).isNotBlank();
                        assertThat(field.name()).matches("[a-z][a-z0-9_]*");
                        assertDocumented(field.schema(), seen);
                    }
                }
            }
            case ENUM -> {
                assertThat(schema.getDoc()).as(schema.getFullName()).isNotBlank();
                assertThat(schema.getEnumDefault()).as("default of %s", schema.getFullName()).isNotNull();
            }
            case FIXED -> assertThat(schema.getDoc()).as(schema.getFullName()).isNotBlank();
            case ARRAY -> assertDocumented(schema.getElementType(), seen);
            case MAP -> assertDocumented(schema.getValueType(), seen);
            case UNION -> {
                assertThat(schema.getTypes()).as("a union of null and one type").hasSize(2);
                assertThat(schema.getTypes().getFirst().getType()).isEqualTo(Schema.Type.NULL);
                assertDocumented(schema.getTypes().get(1), seen);
            }
            default -> assertThat(schema.getType()).isNotEqualTo(Schema.Type.NULL);
        }
    }

    /// A leaf has one encoding: maps have no order, and so no place in it.
    @Test
    void theAttestationHoldsNoMap() {
        assertThat(Schemas.ATTESTATION.schema().toString()).doesNotContain("\"map\"");
    }

    @Test
    void theModelKnowsEveryNamedType() throws IOException {
        Set<String> seen = new HashSet<>();
        for (Schema schema : read(AVRO).values()) {
            assertModelled(schema, seen);
        }
        assertThat(seen).hasSizeGreaterThan(10);
    }

    private static void assertModelled(Schema schema, Set<String> seen) {
        switch (schema.getType()) {
            case RECORD -> {
                if (seen.add(schema.getFullName())) {
                    assertModelledName(schema);
                    schema.getFields().forEach(field -> assertModelled(field.schema(), seen));
                }
            }
            case ENUM, FIXED -> {
                seen.add(schema.getFullName());
                assertModelledName(schema);
            }
            case ARRAY -> assertModelled(schema.getElementType(), seen);
            case MAP -> assertModelled(schema.getValueType(), seen);
            case UNION -> schema.getTypes().forEach(type -> assertModelled(type, seen));
            default -> { }
        }
    }

    private static void assertModelledName(Schema schema) {
        Class<?> known = RecordModel.instance().getClass(schema);
        assertThat(known).as(schema.getFullName()).isNotNull();
        assertThat(known.getName()).isEqualTo(schema.getFullName());
    }
}
