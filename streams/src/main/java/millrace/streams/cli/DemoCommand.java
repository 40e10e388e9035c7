package millrace.streams.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import millrace.schemas.Completion;
import millrace.streams.demo.Demo;
import millrace.streams.demo.Question;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// Questions through a real broker into a real model, and the audit of the answers.
@Command(
        name = "demo",
        mixinStandardHelpOptions = true,
        description = "Runs broker, registry, service and model in one process, asks questions and audits the answers.",
        footer = {
            "",
            "Examples:",
            "  millrace demo",
            "  millrace demo --model kimi-tiny --questions 100",
            "  millrace demo --json 2>/dev/null",
            "",
            "Exit codes: 0 all questions answered and the audit verified, 1 not so, 2 wrong usage."
        })
final class DemoCommand implements Callable<Integer> {
    @Option(names = "--model", paramLabel = "NAME", description = "glm-tiny, glm-tiny-mtp or kimi-tiny (default: ${DEFAULT-VALUE}).")
    String model = "glm-tiny";

    @Option(names = "--questions", paramLabel = "N", description = "How many questions (default: ${DEFAULT-VALUE}).")
    int questions = 12;

    @Option(names = "--json", description = "The last line on standard output is one JSON object.")
    boolean json;

    @Option(names = "-D", paramLabel = "KEY=VALUE", description = "Sets one configuration key. Repeatable.")
    Map<String, String> overrides = new LinkedHashMap<>();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    DemoCommand() {}

    @Override
    public Integer call() {
        if (questions < 1) {
            throw new ParameterException(spec.commandLine(), "--questions: expected at least 1, got " + questions);
        }
        if (!millrace.streams.Models.bundled().contains(model)) {
            throw new ParameterException(spec.commandLine(),
                    "--model: expected one of " + millrace.streams.Models.bundled() + ", got \"" + model + "\"");
        }
        // With --json everything for people goes to standard error.
        PrintWriter people = json ? spec.commandLine().getErr() : spec.commandLine().getOut();
        Map<String, String> settings = new LinkedHashMap<>();
        settings.put("engine.model", model);
        settings.putAll(overrides);
        List<Question> list = Question.of(model, questions);
        Demo.Summary summary = new Demo(new Printer(people)).run(list, settings, ServeCommand::open);
        print(people, summary);
        if (json) {
            spec.commandLine().getOut().println(json(summary));
            spec.commandLine().getOut().flush();
        }
        return summary.good() ? 0 : 1;
    }

    private static void print(PrintWriter out, Demo.Summary summary) {
        out.println();
        out.print(summary.audit().text());
        out.println();
        out.printf("questions   %d, answered %d, right %d%n", summary.questions(), summary.answered(), summary.right());
        out.printf("tokens      %d prompt, %d completion, %.0f completion tokens/s%n",
                summary.promptTokens(), summary.completionTokens(), summary.tokensPerSecond());
        out.printf("KV cache    %d bytes as %s (%d bytes per token)%n",
                summary.kvBytes(), summary.card().kvFormat(), summary.card().kvBytesPerToken());
        out.printf("audit       %s: %d leaves, %d checkpoints verified%n",
                summary.audit().word(), summary.audit().leaves(), summary.audit().checkpoints());
        out.printf("time        first answer after %.1f s, all after %.1f s%n", summary.secondsToFirstAnswer(), summary.seconds());
        out.flush();
    }

    private static String json(Demo.Summary summary) {
        ObjectMapper mapper = new ObjectMapper();
        ObjectNode node = mapper.createObjectNode()
                .put("model", summary.card().name())
                .put("backend", summary.card().backend())
                .put("kv_format", summary.card().kvFormat())
                .put("questions", summary.questions())
                .put("answered", summary.answered())
                .put("right", summary.right())
                .put("prompt_tokens", summary.promptTokens())
                .put("completion_tokens", summary.completionTokens())
                .put("tokens_per_second", Math.round(summary.tokensPerSecond() * 10) / 10.0)
                .put("kv_bytes", summary.kvBytes());
        node.putObject("audit")
                .put("verdict", summary.audit().word())
                .put("leaves", summary.audit().leaves())
                .put("checkpoints", summary.audit().checkpoints());
        node.put("seconds", Math.round(summary.seconds() * 1000) / 1000.0);
        try {
            return mapper.writeValueAsString(node);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of text and numbers can be written", e);
        }
    }

    /// Shows each answer as it arrives.
    private static final class Printer implements Demo.Listener {
        private final PrintWriter out;

        Printer(PrintWriter out) {
            this.out = out;
        }

        @Override
        public void story(String line) {
            out.println(line);
            out.flush();
        }

        @Override
        public void answered(Question question, Completion completion, double latencyMs) {
            String mark = question.isRight(completion.getText()) ? "right" : "wrong (" + question.answer() + ")";
            String text = completion.getErrorCode() == null
                    ? completion.getText()
                    : completion.getErrorCode() + ": " + completion.getErrorMessage();
            out.printf("%n  Q  %s%n  A  %s   [%s]%n     %s, %.0f ms, leaf %d/%d %s%n",
                    question.prompt(), text, mark, completion.getFinishReason(), latencyMs,
                    completion.getAudit().getPartition(), completion.getAudit().getSeq(),
                    java.util.HexFormat.of().formatHex(completion.getAudit().getLeaf().bytes(), 0, 8));
            out.flush();
        }
    }
}
