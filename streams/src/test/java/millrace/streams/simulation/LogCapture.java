package millrace.streams.simulation;

import java.util.ArrayList;
import java.util.List;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configuration;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.config.Property;

/// Takes what the service logs, at every level, instead of the console.
public final class LogCapture implements AutoCloseable {
    static final String LOGGER = "millrace.streams";

    private final LoggerContext context = (LoggerContext) LogManager.getContext(false);
    private final List<String> lines = new ArrayList<>();

    public LogCapture() {
        AbstractAppender appender = new AbstractAppender("simulation", null, null, false, Property.EMPTY_ARRAY) {
            @Override
            public void append(LogEvent event) {
                synchronized (lines) {
                    lines.add(event.getLevel() + " " + event.getMessage().getFormattedMessage()
                            + (event.getThrown() == null ? "" : " " + event.getThrown()));
                }
            }
        };
        appender.start();
        Configuration configuration = context.getConfiguration();
        LoggerConfig logger = new LoggerConfig(LOGGER, Level.ALL, false);
        logger.addAppender(appender, Level.ALL, null);
        configuration.addLogger(LOGGER, logger);
        context.updateLoggers();
    }

    /// The lines since the last call, each with its level first.
    public List<String> take() {
        synchronized (lines) {
            List<String> taken = List.copyOf(lines);
            lines.clear();
            return taken;
        }
    }

    @Override
    public void close() {
        context.getConfiguration().removeLogger(LOGGER);
        context.updateLoggers();
    }
}
