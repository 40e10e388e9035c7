package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.common.utils.internals.Exit;
import org.apache.kafka.tools.AclCommand;
import org.apache.kafka.tools.ConfigCommand;
import org.apache.kafka.tools.TopicCommand;

/// Kafka's own commands, as a line in a document or in our output has them, run in this process.
public final class KafkaTools {
    private static final Pattern WORD = Pattern.compile("'([^']*)'|\"([^\"]*)\"|(\\S+)");

    private KafkaTools() {}

    /// Runs such a line; a command that fails, fails the test.
    public static void run(String line) {
        List<String> words = words(line);
        String[] arguments = words.subList(1, words.size()).toArray(String[]::new);
        List<Integer> exits = new ArrayList<>();
        // The first exit counts: a command may catch what unwinds it, and exit once more.
        Exit.setExitProcedure((status, message) -> {
            exits.add(status);
            throw new IllegalStateException("exit " + status + (message == null ? "" : ": " + message));
        });
        try {
            switch (words.getFirst()) {
                case "kafka-acls.sh" -> AclCommand.main(arguments);
                case "kafka-configs.sh" -> ConfigCommand.main(arguments);
                case "kafka-topics.sh" -> TopicCommand.main(arguments);
                default -> throw new IllegalArgumentException(line);
            }
        } catch (IllegalStateException e) {
            assertThat(exits).as(e.getMessage()).isNotEmpty();
        } finally {
            Exit.resetExitProcedure();
        }
        assertThat(exits.isEmpty() ? 0 : exits.getFirst()).as("%s %s", words.getFirst(), Arrays.toString(arguments)).isZero();
    }

    /// A command line's words, quotes undone.
    static List<String> words(String line) {
        List<String> words = new ArrayList<>();
        Matcher word = WORD.matcher(line);
        while (word.find()) {
            for (int group = 1; group <= 3; group++) {
                if (word.group(group) != null) {
                    words.add(word.group(group));
                }
            }
        }
        return words;
    }
}
