package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import millrace.streams.cli.Main;
import org.junit.jupiter.api.Test;
import picocli.CommandLine;

/// docs/commands.md is what the commands say of themselves. `-Dmillrace.docs.write=true` writes it anew.
class CommandsDocTest {
    /// Columns of the page; a terminal's 80 break examples that can be copied from here.
    private static final int WIDTH = 120;

    @Test
    void pageIsWhatTheCommandsSay() throws IOException {
        Path page = Repository.root().resolve("docs/commands.md");
        String expected = render();
        if (Boolean.getBoolean("millrace.docs.write")) {
            Files.writeString(page, expected);
        }
        assertThat(Files.readString(page))
                .as("docs/commands.md is stale; write it anew with: mvn -q -pl streams -am test"
                        + " -Dtest=CommandsDocTest -Dsurefire.failIfNoSpecifiedTests=false -Dmillrace.docs.write=true")
                .isEqualTo(expected);
    }

    /// The page is the same wherever it is written.
    @Test
    void pageSaysNothingOfThisMachine() throws IOException {
        assertThat(render()).doesNotContain(System.getProperty("user.home") + "/", Repository.root().toString(),
                System.getProperty("java.io.tmpdir") + "/", "${");
    }

    private static String render() throws IOException {
        Map<String, CommandLine> commands = new LinkedHashMap<>();
        collect("millrace", Main.commandLine(), commands);
        StringBuilder page = new StringBuilder(Files.readString(Repository.root().resolve("streams/src/test/resources/commands-head.md")));
        commands.forEach((name, command) -> {
            String depth = "  ".repeat((int) name.chars().filter(c -> c == ' ').count());
            page.append(depth).append("- [`").append(name).append("`](#").append(name.replace(' ', '-')).append(")\n");
        });
        commands.forEach((name, command) -> {
            String help = command.setUsageHelpWidth(WIDTH).getUsageMessage(CommandLine.Help.Ansi.OFF);
            page.append("\n## ").append(name).append("\n\n```\n").append(help.replace("\r\n", "\n").stripTrailing()).append("\n```\n");
        });
        return page.toString();
    }

    private static void collect(String name, CommandLine command, Map<String, CommandLine> into) {
        into.put(name, command);
        command.getSubcommands().forEach((word, sub) -> {
            if (!word.equals("help")) {
                collect(name + " " + word, sub, into);
            }
        });
    }
}
