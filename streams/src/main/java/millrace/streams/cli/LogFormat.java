package millrace.streams.cli;

import java.util.function.Consumer;
import millrace.streams.ServiceConfig;
import org.apache.logging.log4j.core.config.Configurator;
import org.slf4j.LoggerFactory;

/// The form of what a service writes to standard error.
final class LogFormat {
    /// Names the appender of log4j2.properties that is used.
    private static final String APPENDER = "millrace.log.appender";
    private static final String STORY = "millrace.streams.Start";

    private LogFormat() {}

    /// Makes the log have the form that the configuration names.
    ///
    /// @param plain writes a line as it is
    /// @return writes a line of the start and the stop in that form
    static Consumer<String> apply(ServiceConfig config, Consumer<String> plain) {
        if (!config.string("log.format").equals("json")) {
            return plain;
        }
        System.setProperty(APPENDER, "json");
        // Logging has begun before the configuration was read.
        Configurator.reconfigure();
        return LoggerFactory.getLogger(STORY)::info;
    }
}
