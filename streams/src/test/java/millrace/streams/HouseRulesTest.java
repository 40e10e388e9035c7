package millrace.streams;

import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAnyPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.fields;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.base.DescribedPredicate;
import com.tngtech.archunit.core.domain.Dependency;
import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.domain.JavaModifier;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.Location;
import com.tngtech.archunit.lang.ArchCondition;
import com.tngtech.archunit.lang.ConditionEvents;
import com.tngtech.archunit.lang.SimpleConditionEvent;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/// Who may know whom, checked on the compiled classes of all four modules. docs/architecture.md draws the picture.
class HouseRulesTest {
    private static final JavaClasses MAIN = new ClassFileImporter()
            .withImportOption(HouseRulesTest::isMainCode)
            .importPackages("millrace");

    private static final String[] JDK = {"java..", "javax..", "jdk.incubator.vector.."};

    /// Rooms of the engine, and the rooms that each may enter. The values of the door (requests, results, errors) may
    /// be used everywhere, as long as they know no room themselves.
    private static final Map<String, Set<String>> ENGINE_ROOMS = Map.ofEntries(
            Map.entry("format", Set.of()),
            Map.entry("weights", Set.of("kernel", "format")),
            Map.entry("tokenizer", Set.of("weights", "reply")),
            Map.entry("reply", Set.of()),
            Map.entry("checkpoint", Set.of("weights", "kernel", "format")),
            Map.entry("resident", Set.of("kernel", "format")),
            Map.entry("model", Set.of("checkpoint", "resident", "batch", "kv", "weights", "kernel", "format")),
            Map.entry("guide", Set.of("tokenizer", "reply")),
            Map.entry("batch", Set.of("kv", "sampling", "tokenizer", "guide", "format", "reply")),
            Map.entry("kv", Set.of("kernel")),
            Map.entry("sampling", Set.of()),
            Map.entry("kernel", Set.of("format")),
            Map.entry("kernel.cpu", Set.of("kernel", "format")),
            Map.entry("kernel.scalar", Set.of("kernel", "kernel.cpu", "format")),
            Map.entry("kernel.vector", Set.of("kernel", "kernel.cpu", "format")),
            Map.entry("kernel.ffi", Set.of("kernel", "kernel.cpu", "format")),
            Map.entry("kernel.cuda", Set.of("kernel", "kernel.cpu", "format")));

    /// Rooms of streams; the root, named by the empty string, is the service.
    private static final Map<String, Set<String>> STREAMS_ROOMS = Map.ofEntries(
            Map.entry("registry.server", Set.of()),
            Map.entry("registry", Set.of("registry.server")),
            Map.entry("embedded", Set.of("registry.server", "registry")),
            Map.entry("console", Set.of()),
            Map.entry("tracing", Set.of()),
            Map.entry("", Set.of("registry", "console", "tracing")),
            Map.entry("client", Set.of("", "registry")),
            Map.entry("openai", Set.of()),
            Map.entry("batch", Set.of("", "registry", "openai")),
            Map.entry("gateway", Set.of("", "registry", "client", "openai", "batch")),
            Map.entry("demo", Set.of("", "embedded", "registry")),
            Map.entry("bench", Set.of("", "embedded", "registry", "demo", "client", "gateway", "openai")),
            Map.entry("drill", Set.of("", "registry", "demo")),
            Map.entry("gpu", Set.of()),
            Map.entry("cli", Set.of("", "embedded", "registry", "demo", "drill", "bench", "gpu", "client", "openai", "batch",
                    "gateway")));

    @Test
    void importsAllFourModules() {
        Set<String> modules = MAIN.stream().map(c -> c.getPackageName().split("\\.")[1]).collect(Collectors.toSet());
        assertThat(modules).containsExactlyInAnyOrder("engine", "integrity", "schemas", "streams");
        assertThat(MAIN.contain(HouseRulesTest.class)).isFalse();
    }

    @Test
    void engineKnowsNobody() {
        classes().that().resideInAPackage("millrace.engine..")
                .should().onlyDependOnClassesThat(resideInAnyPackage(JDK)
                        .or(resideInAnyPackage("millrace.engine..", "com.fasterxml.jackson..", "jcuda..", "org.jspecify.."))
                        .or(primitives()))
                .check(MAIN);
    }

    @Test
    void schemasKnowNobody() {
        classes().that().resideInAPackage("millrace.schemas..")
                .should().onlyDependOnClassesThat(resideInAnyPackage(JDK)
                        .or(resideInAnyPackage("millrace.schemas..", "org.apache.avro..", "org.jspecify.."))
                        .or(primitives()))
                .check(MAIN);
    }

    @Test
    void integrityKnowsSchemasOnly() {
        classes().that().resideInAPackage("millrace.integrity..").and().resideOutsideOfPackage("millrace.integrity.model..")
                .should().onlyDependOnClassesThat(resideInAnyPackage(JDK)
                        .or(resideInAnyPackage(
                                "millrace.integrity..", "millrace.schemas..", "org.apache.avro..", "org.apache.kafka..",
                                "org.jspecify.."))
                        .or(primitives()))
                .check(MAIN);
    }

    /// What signs models needs neither the log's records nor a cluster.
    @Test
    void modelSignaturesKnowTheJdkAndJson() {
        classes().that().resideInAPackage("millrace.integrity.model..")
                .should().onlyDependOnClassesThat(resideInAnyPackage(JDK)
                        .or(resideInAnyPackage(
                                "millrace.integrity", "millrace.integrity.model..", "com.fasterxml.jackson..",
                                "org.jspecify.."))
                        .or(primitives()))
                .check(MAIN);
    }

    @Test
    void nobodyKnowsStreams() {
        noClasses().that().resideOutsideOfPackage("millrace.streams..")
                .should().dependOnClassesThat().resideInAPackage("millrace.streams..")
                .check(MAIN);
    }

    @Test
    void kafkaStaysInStreamsAndInTheAuditor() {
        noClasses().that().resideOutsideOfPackages("millrace.streams..", "millrace.integrity.audit..")
                .should().dependOnClassesThat().resideInAnyPackage("org.apache.kafka..", "kafka..")
                .check(MAIN);
    }

    @Test
    void brokerClassesStayInTheEmbeddedBroker() {
        noClasses().that().resideOutsideOfPackage("millrace.streams.embedded..")
                .should().dependOnClassesThat().resideInAnyPackage(
                        "kafka..", "org.apache.kafka.server..", "org.apache.kafka.metadata..", "org.apache.kafka.raft..",
                        "org.apache.kafka.storage..")
                .check(MAIN);
    }

    @Test
    void vectorApiStaysInTheVectorKernels() {
        noClasses().that().resideOutsideOfPackage("millrace.engine.kernel.vector..")
                .should().dependOnClassesThat().resideInAPackage("jdk.incubator.vector..")
                .check(MAIN);
    }

    @Test
    void openTelemetryStaysInTheTracingRoom() {
        noClasses().that().resideOutsideOfPackage("millrace.streams.tracing..")
                .should().dependOnClassesThat().resideInAPackage("io.opentelemetry..")
                .check(MAIN);
    }

    /// And of JCuda the driver API: its other parts want libraries that a machine with a driver need not have.
    @Test
    void jcudaStaysInTheCudaKernels() {
        noClasses().that().resideOutsideOfPackage("millrace.engine.kernel.cuda..")
                .should().dependOnClassesThat().resideInAPackage("jcuda..")
                .check(MAIN);
        noClasses().that().resideInAPackage("millrace.engine.kernel.cuda..")
                .should().dependOnClassesThat(resideInAPackage("jcuda..").and(DescribedPredicate.not(
                        resideInAnyPackage("jcuda", "jcuda.driver"))))
                .check(MAIN);
    }

    @TestFactory
    Iterable<DynamicTest> engineRoomsOnlyAlongTheArrows() {
        return roomTests("millrace.engine", ENGINE_ROOMS);
    }

    @TestFactory
    Iterable<DynamicTest> streamsRoomsOnlyAlongTheArrows() {
        return roomTests("millrace.streams", STREAMS_ROOMS);
    }

    @Test
    void everyPackageIsARoom() {
        for (JavaClass c : MAIN) {
            String name = c.getPackageName();
            if (name.startsWith("millrace.engine.")) {
                assertThat(ENGINE_ROOMS).as(c.getName()).containsKey(name.substring("millrace.engine.".length()));
            } else if (name.startsWith("millrace.streams.")) {
                assertThat(STREAMS_ROOMS).as(c.getName()).containsKey(name.substring("millrace.streams.".length()));
            }
        }
    }

    /// The choice of a backend is the one place that knows them all.
    @Test
    void onlyTheChoiceOfABackendKnowsBackends() {
        noClasses().that().resideInAPackage("millrace.engine.kernel").and().doNotHaveSimpleName("Backend")
                .should().dependOnClassesThat().resideInAPackage("millrace.engine.kernel.*..")
                .check(MAIN);
    }

    /// Output is the command line's business, and there picocli's writers are used, which tests can replace.
    @Test
    void standardStreamsStayInTheCommandLine() {
        noClasses().that().resideOutsideOfPackage("millrace.streams.cli..")
                .should().accessField(System.class, "out")
                .orShould().accessField(System.class, "err")
                .orShould().callMethod(Throwable.class, "printStackTrace")
                .check(MAIN);
    }

    @Test
    void onlyTheMainClassesExit() {
        noClasses().that().doNotHaveFullyQualifiedName("millrace.streams.cli.Main")
                .and().doNotHaveFullyQualifiedName("millrace.streams.cli.GpuMain")
                .should().callMethod(System.class, "exit", int.class)
                .check(MAIN);
    }

    @Test
    void staticFieldsAreFinal() {
        fields().that().areStatic().and().areDeclaredInClassesThat(resideInAPackage("millrace..").and(handWritten()))
                .should().beFinal()
                .check(MAIN);
    }

    @Test
    void noUnsafeAndNoJavaSerialization() {
        noClasses().that(handWritten())
                .should().dependOnClassesThat().resideInAnyPackage("sun..", "jdk.internal..")
                .orShould().dependOnClassesThat().haveFullyQualifiedName("java.io.ObjectInputStream")
                .orShould().dependOnClassesThat().haveFullyQualifiedName("java.io.ObjectOutputStream")
                .check(MAIN);
    }

    /// Reflection hides from the compiler what is called; a proxy of Kafka's consumer is worth it, see its comment.
    @Test
    void noReflection() {
        noClasses().that(handWritten()).and().haveNameNotMatching("millrace\\.streams\\.WakeableClients(\\$.*)?")
                .should().dependOnClassesThat().resideInAPackage("java.lang.reflect..")
                .check(MAIN);
    }

    private static Iterable<DynamicTest> roomTests(String door, Map<String, Set<String>> rooms) {
        return new TreeSet<>(rooms.keySet()).stream()
                .map(room -> DynamicTest.dynamicTest(room.isEmpty() ? door : room, () -> classes()
                        .that().resideInAPackage(room.isEmpty() ? door : door + "." + room)
                        .should(enterOnly(door, room, rooms))
                        .check(MAIN)))
                .toList();
    }

    private static ArchCondition<JavaClass> enterOnly(String door, String room, Map<String, Set<String>> rooms) {
        Set<String> allowed = rooms.get(room);
        boolean doorIsARoom = rooms.containsKey("");
        return new ArchCondition<>("enter only " + allowed) {
            @Override
            public void check(JavaClass from, ConditionEvents events) {
                for (Dependency dependency : from.getDirectDependenciesFromSelf()) {
                    JavaClass target = dependency.getTargetClass().getBaseComponentType();
                    String other = roomOf(door, target);
                    if (other == null || other.equals(room) || allowed.contains(other) || isChoice(from)) {
                        continue;
                    }
                    if (other.isEmpty() && !doorIsARoom && !entersRooms(door, target)) {
                        continue;
                    }
                    events.add(SimpleConditionEvent.violated(from, dependency.getDescription()));
                }
            }
        };
    }

    private static boolean isChoice(JavaClass c) {
        return c.getName().equals("millrace.engine.kernel.Backend");
    }

    private static boolean entersRooms(String door, JavaClass value) {
        return value.getDirectDependenciesFromSelf().stream()
                .map(dependency -> roomOf(door, dependency.getTargetClass().getBaseComponentType()))
                .anyMatch(room -> room != null && !room.isEmpty());
    }

    /// The class's room below the door, empty for the door itself, null outside.
    private static String roomOf(String door, JavaClass c) {
        String name = c.getPackageName();
        if (name.equals(door)) {
            return "";
        }
        return name.startsWith(door + ".") ? name.substring(door.length() + 1) : null;
    }

    private static DescribedPredicate<JavaClass> handWritten() {
        return DescribedPredicate.describe("written by hand", c -> !c.isAssignableTo("org.apache.avro.specific.SpecificRecordBase")
                && c.getEnclosingClass().map(outer -> !outer.isAssignableTo("org.apache.avro.specific.SpecificRecordBase")).orElse(true)
                && !c.isAssignableTo("org.apache.avro.specific.SpecificFixed")
                && !c.getModifiers().contains(JavaModifier.SYNTHETIC));
    }

    private static DescribedPredicate<JavaClass> primitives() {
        return DescribedPredicate.describe("primitive", c -> c.getBaseComponentType().isPrimitive()
                || c.isArray() && resideInAnyPackage("java..", "millrace..", "org.apache.avro..").test(c.getBaseComponentType()));
    }

    private static boolean isMainCode(Location location) {
        return !location.contains("/test-classes/") && !location.contains("-tests.jar");
    }
}
