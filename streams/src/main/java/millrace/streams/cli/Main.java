package millrace.streams.cli;

import java.util.concurrent.Callable;
import millrace.engine.EngineException;
import millrace.integrity.IntegrityException;
import millrace.streams.Versions;
import millrace.streams.embedded.EmbeddedException;
import org.apache.kafka.common.KafkaException;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.IVersionProvider;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// The one command, `millrace`, with its subcommands.
@Command(
        name = "millrace",
        mixinStandardHelpOptions = true,
        versionProvider = Main.Version.class,
        description = "Kafka-native LLM inference that proves what it served.",
        synopsisSubcommandLabel = "COMMAND",
        footer = {
            "",
            "First steps:",
            "  millrace demo                               twelve questions through broker, model and audit log",
            "  millrace serve --embedded -D engine.model=glm-tiny",
            "  millrace prompt \"What is the two-letter code for France?\"",
            "",
            "Exit codes: 0 done, 1 failed, 2 wrong usage; audit and topics commands",
            "and model verify: 0 ok, 1 violated or wrong, 2 undecided, 3 usage or",
            "input/output."
        },
        subcommands = {
            DemoCommand.class,
            ServeCommand.class,
            PromptCommand.class,
            CancelCommand.class,
            ConsumeCommand.class,
            BatchCommand.class,
            GatewayCommand.class,
            TopicsCommand.class,
            GenerateCommand.class,
            LogitsCommand.class,
            TokenizeCommand.class,
            EvalCommand.class,
            ModelCommand.class,
            AuditCommand.class,
            BenchCommand.class,
            DrillCommand.class,
            GpuCommand.class,
            CommandLine.HelpCommand.class
        })
public final class Main implements Callable<Integer> {
    @Spec
    private CommandSpec spec;

    /// Picocli makes it.
    @SuppressWarnings("NullAway.Init")
    public Main() {}

    public static void main(String[] arguments) {
        System.exit(commandLine().execute(arguments));
    }

    /// The command line as `main` runs it.
    public static CommandLine commandLine() {
        CommandLine line = new CommandLine(new Main());
        line.setExecutionExceptionHandler(Main::explain);
        line.setParameterExceptionHandler(Main::correct);
        line.setCaseInsensitiveEnumValuesAllowed(true);
        return line;
    }

    /// The message and where help is, instead of the whole help.
    private static int correct(CommandLine.ParameterException e, String[] arguments) {
        CommandLine line = e.getCommandLine();
        line.getErr().println("millrace: " + e.getMessage());
        CommandLine.UnmatchedArgumentException.printSuggestions(e, line.getErr());
        line.getErr().println("`" + line.getCommandSpec().qualifiedName() + " --help` explains it");
        line.getErr().flush();
        return line.getCommandSpec().exitCodeOnInvalidInput();
    }

    /// One line for what a user can mend; a stack trace only for what is our fault.
    private static int explain(Exception e, CommandLine line, CommandLine.ParseResult result) {
        Throwable cause = e;
        while (cause.getMessage() == null && cause.getCause() != null) {
            cause = cause.getCause();
        }
        boolean expected = cause instanceof EngineException || cause instanceof KafkaException
                || cause instanceof IllegalArgumentException || cause instanceof IllegalStateException
                || cause instanceof java.io.UncheckedIOException || cause instanceof java.io.IOException
                || cause instanceof IntegrityException || cause instanceof EmbeddedException;
        if (expected) {
            String code = switch (cause) {
                case EngineException known -> known.code() + ": ";
                case EmbeddedException known -> known.code() + ": ";
                case IntegrityException known -> known.code() + ": ";
                default -> "";
            };
            line.getErr().println("millrace: " + code + cause.getMessage());
        } else {
            e.printStackTrace(line.getErr());
        }
        line.getErr().flush();
        return line.getCommandSpec().exitCodeOnExecutionException();
    }

    @Override
    public Integer call() {
        spec.commandLine().usage(spec.commandLine().getErr());
        return 2;
    }

    /// Versions of what runs, from the jars.
    static final class Version implements IVersionProvider {
        @Override
        public String[] getVersion() {
            return new String[] {
                "millrace " + Versions.millrace() + ", Kafka " + Versions.kafka() + ", Java " + Runtime.version()
            };
        }
    }
}
