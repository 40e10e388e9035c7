package millrace.streams.cli;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.streams.client.ClientConfig;
import millrace.streams.client.ClientException;
import millrace.streams.client.MillraceClient;
import millrace.streams.client.SendOptions;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Produces one prompt event and waits for its completion.
@Command(
        name = "prompt",
        mixinStandardHelpOptions = true,
        description = "Sends one prompt to a running service and waits for its completion.",
        footer = {
            "",
            "Examples:",
            "  millrace prompt \"What is the two-letter code for France?\"",
            "  millrace prompt --stream \"What is the two-letter code for France?\"",
            "  millrace prompt --file question.txt --system \"Be brief.\" --max-tokens 64 --json",
            "  millrace prompt --response-format '{\"type\":\"json_object\"}' --logprobs 3 --json \\",
            "    \"The capital of France, as JSON.\"",
            "  millrace prompt -b broker:9092 --registry http://registry:8081 \"Hello\"",
            "",
            "Exit codes: 0 answered, 1 rejected, failed or no answer in time, 2 wrong usage."
        })
final class PromptCommand implements Callable<Integer> {
    @Parameters(arity = "0..1", paramLabel = "TEXT", description = "The user's message.")
    @Nullable String text;

    @Option(names = "--file", paramLabel = "FILE", description = "Reads the user's message from a UTF-8 file; - is standard input.")
    @Nullable Path file;

    @Option(names = "--system", paramLabel = "TEXT", description = "A system message before it.")
    @Nullable String system;

    @Option(names = "--raw", description = "Sends the text as a raw prompt, without the chat format.")
    boolean raw;

    @Option(names = "--max-tokens", paramLabel = "N", description = "The most tokens to generate (default: the service's).")
    @Nullable Integer maxTokens;

    @Option(names = "--temperature", paramLabel = "T", description = "0 is greedy (default: 0).")
    float temperature;

    @Option(names = "--top-p", paramLabel = "P", description = "Keeps the smallest set of tokens that reaches P (default: 1, all).")
    float topP = 1f;

    @Option(names = "--seed", paramLabel = "N", description = "Seed of the random numbers (default: from the record's position).")
    @Nullable Long seed;

    @Option(names = "--stop", paramLabel = "TEXT", description = "Ends the completion where this begins. Repeatable.")
    List<String> stop = new ArrayList<>();

    @Option(names = "--id", paramLabel = "ID", description = "Request id (default: a new UUID).")
    String id = UUID.randomUUID().toString();

    @Option(names = "--tenant", paramLabel = "NAME", description = "The tenant that asks.")
    @Nullable String tenant;

    @Option(
            names = "--session",
            paramLabel = "ID",
            description = "The conversation that this is a turn of. It is the record's key, so that turns meet their cache.")
    @Nullable String session;

    @Option(names = "--timeout", paramLabel = "SECONDS", description = "How long to wait (default: ${DEFAULT-VALUE}).")
    int timeoutSeconds = 120;

    @Option(names = "--json", description = "Prints the completion as one JSON object.")
    boolean json;

    @Option(names = "--stream", description = {
        "Shows the text while it is generated, before it is attested: on a terminal in place, else on standard error.",
        "The completion follows, and where its leaf is."})
    boolean stream;

    @Mixin
    AnswerOptions answer = new AnswerOptions();

    @Mixin
    ClientOptions client = new ClientOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    PromptCommand() {}

    @Override
    public Integer call() throws Exception {
        Prompt prompt = prompt(question());
        ClientConfig config = ClientConfig.of(client.load()).withTimeout(Duration.ofSeconds(timeoutSeconds));
        StreamedText streamed = stream ? new StreamedText(inPlace() ? spec.commandLine().getOut() : spec.commandLine().getErr()) : null;
        try (MillraceClient millrace = MillraceClient.open(config)) {
            return show(millrace.send(prompt, SendOptions.DEFAULT.withListener(streamed)).completion().get(), streamed);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof ClientException problem && problem.code().equals("CLIENT_TIMEOUT")) {
                spec.commandLine().getErr().println("millrace: no completion of " + id + " within " + timeoutSeconds
                        + " s; is the service running? The prompt is not lost: `millrace consume --from-beginning` shows its answer later");
                return 1;
            }
            throw e.getCause() instanceof ClientException problem ? problem : e;
        }
    }

    /// On a terminal the preview stands where the answer will, and is not repeated.
    private boolean inPlace() {
        return !json && System.console() != null && System.console().isTerminal();
    }

    private int show(Completion completion, @Nullable StreamedText streamed) {
        boolean answered = completion.getFinishReason() != FinishReason.rejected
                && completion.getFinishReason() != FinishReason.failed;
        boolean shown = streamed != null && streamed.showed(completion) && inPlace();
        if (json) {
            spec.commandLine().getOut().println(CompletionJson.line(completion));
        } else if (answered && !shown) {
            spec.commandLine().getOut().println(completion.getText());
        } else if (!answered) {
            spec.commandLine().getErr().println("millrace: " + completion.getFinishReason() + ": "
                    + completion.getErrorCode() + ": " + completion.getErrorMessage());
        }
        if (stream) {
            spec.commandLine().getErr().println("attested: leaf " + completion.getAudit().getSeq() + " of "
                    + completion.getAudit().getOrigin());
        }
        spec.commandLine().getOut().flush();
        return answered ? 0 : 1;
    }

    private String question() throws IOException {
        if ((text == null) == (file == null)) {
            throw new ParameterException(spec.commandLine(), "expected either TEXT or --file, got " + (text == null ? "neither" : "both"));
        }
        if (text != null) {
            return text;
        }
        String path = String.valueOf(file);
        byte[] bytes = path.equals("-") ? System.in.readAllBytes() : Files.readAllBytes(Path.of(path));
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private Prompt prompt(String question) throws IOException {
        List<Message> messages = new ArrayList<>();
        if (system != null) {
            messages.add(new Message("system", system, null, null, null, List.of()));
        }
        messages.add(new Message("user", question, null, null, null, List.of()));
        Sampling sampling = Sampling.newBuilder()
                .setTemperature(temperature)
                .setTopP(topP)
                .setSeed(seed)
                .setMaxTokens(maxTokens)
                .setStop(stop)
                .build();
        return Prompt.newBuilder()
                .setRequestId(id)
                .setTenant(tenant)
                .setSessionId(session)
                .setMessages(raw ? null : messages)
                .setPrompt(raw ? question : null)
                .setSampling(sampling)
                .setLogprobs(answer.logprobs)
                .setResponseFormat(answer.responseFormat())
                .setTools(answer.tools())
                .setToolChoice(answer.toolChoice)
                .setReasoningEffort(answer.reasoningEffort)
                .build();
    }
}
