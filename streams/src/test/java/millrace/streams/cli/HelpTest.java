package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;
import picocli.CommandLine.Model.OptionSpec;

/// Help is the manual: whoever has only the program learns from it what a command does, how it is called and how it ends.
class HelpTest {
    /// A line of a footer that calls the program, up to where the shell takes over.
    private static final Pattern CALL = Pattern.compile("(?m)^ {2}(?:[^\n]*\\| )?(?:\\./)?millrace ([^|>\n]*(?:'[^'\n]*'[^|>\n]*)*)");
    private static final Pattern WORD = Pattern.compile("(?:[^\\s\"']|\"(?:[^\"\\\\]|\\\\.)*\"|'[^']*')+");

    /// Every command that does something, by its full name.
    private static Map<String, CommandLine> commands() {
        Map<String, CommandLine> all = new java.util.TreeMap<>();
        collect("millrace", new CommandLine(new Main()), all);
        all.remove("millrace help");
        return all;
    }

    private static void collect(String name, CommandLine command, Map<String, CommandLine> into) {
        if (command.getSubcommands().isEmpty()) {
            into.put(name, command);
        }
        command.getSubcommands().forEach((word, sub) -> collect(name + " " + word, sub, into));
    }

    @Test
    void everyCommandHasExamplesAndExitCodes() {
        List<String> lacking = new ArrayList<>();
        commands().forEach((name, command) -> {
            String help = command.getUsageMessage(CommandLine.Help.Ansi.OFF);
            if (!help.contains(name + " ") && !help.contains("\n  " + name + "\n")) {
                lacking.add(name + ": an example");
            }
            if (!help.toLowerCase(Locale.ROOT).contains("exit code")) {
                lacking.add(name + ": exit codes");
            }
        });
        assertThat(lacking).isEmpty();
        assertThat(commands()).hasSizeGreaterThan(40);
    }

    /// An example that cannot be typed teaches nothing.
    @Test
    void everyExampleIsACallThatTheCommandTakes() {
        List<String> calls = commands().values().stream().flatMap(command -> calls(command).stream()).toList();
        assertThat(calls).hasSizeGreaterThan(60);
        List<String> refused = new ArrayList<>();
        for (String call : calls) {
            try {
                new CommandLine(new Main()).parseArgs(words(call));
            } catch (CommandLine.ParameterException e) {
                refused.add(call + ": " + e.getMessage());
            }
        }
        assertThat(refused).isEmpty();
    }

    private static List<String> calls(CommandLine command) {
        String footer = String.join("\n", command.getCommandSpec().usageMessage().footer()).replaceAll("\\\\\n\\s*", "")
                .replaceAll("<[^<>\n]*>", "PLACEHOLDER").replaceAll(" [12]>", " >");
        return CALL.matcher(footer).results().map(found -> found.group(1)).toList();
    }

    /// As a shell parts them.
    private static String[] words(String call) {
        return WORD.matcher(call).results().map(found -> found.group().replaceAll("(?s)\"((?:[^\"\\\\]|\\\\.)*)\"|'([^']*)'", "$1$2")
                .replaceAll("\\\\(.)", "$1")).toArray(String[]::new);
    }

    @Test
    void everyOptionAndEveryCommandSaysWhatItIs() {
        List<String> lacking = new ArrayList<>();
        commands().forEach((name, command) -> {
            if (command.getCommandSpec().usageMessage().description().length == 0) {
                lacking.add(name);
            }
            for (OptionSpec option : command.getCommandSpec().options()) {
                if (option.description().length == 0 && !option.hidden()) {
                    lacking.add(name + " " + option.longestName());
                }
            }
            command.getCommandSpec().positionalParameters().stream().filter(parameter -> parameter.description().length == 0)
                    .forEach(parameter -> lacking.add(name + " " + parameter.paramLabel()));
        });
        assertThat(lacking).isEmpty();
    }

    @Test
    void helpOfEveryCommandCanBeAskedFor() {
        commands().forEach((name, command) -> assertThat(command.getCommandSpec().optionsMap()).as(name).containsKey("--help"));
    }
}
