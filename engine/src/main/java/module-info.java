/// The engine: what is computed. Everything a caller may use is in `millrace.engine`.
module millrace.engine {
    requires static transitive org.jspecify;
    requires com.fasterxml.jackson.databind;
    requires static jdk.incubator.vector;

    exports millrace.engine;
}
