/// The engine: what is computed. Everything a caller may use is in `millrace.engine`.
module millrace.engine {
    requires static transitive org.jspecify;
    requires com.fasterxml.jackson.databind;
    requires static jdk.incubator.vector;
    requires java.management;
    requires jcuda;
    // For tests alone, which are compiled as part of this module: they measure allocation, and expect warnings.
    requires static java.logging;
    requires static jdk.management;

    exports millrace.engine;
}
