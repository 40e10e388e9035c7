package millrace.streams.cli;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.concurrent.Callable;
import millrace.engine.InvalidRequestException;
import millrace.engine.TextCodec;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/// Text to token ids and back.
@Command(
        name = "tokenize",
        mixinStandardHelpOptions = true,
        description = "Turns texts or conversations into token ids, or with --decode ids into text.",
        footer = {
            "",
            "Input: {\"id\": any, \"text\": text}: special tokens in the text are recognised;",
            "  or {\"id\", \"messages\": [{\"role\", \"content\"}]} and optionally tools, thinking,",
            "  reasoning_effort, add_generation_prompt (true): the chat format is applied,",
            "  and no message can form a special token;",
            "  with --decode {\"id\", \"ids\": [token ids]}.",
            "Output: {\"id\", \"ids\"}, for messages also \"prompt\", the text as the model sees",
            "  it; with --decode {\"id\", \"text\"}, special tokens as their names. A line that",
            "  can not be served gets an error, and the exit code is 1.",
            "The weights are not loaded.",
            "",
            "Examples:",
            "  millrace tokenize --model glm-tiny --input texts.jsonl --output ids.jsonl",
            "  echo '{\"ids\": [84, 97]}' \\",
            "    | millrace tokenize --decode --model DIR --input - --output -"
        })
final class TokenizeCommand implements Callable<Integer> {
    @Mixin
    EngineOptions options = new EngineOptions();

    @Option(names = "--input", required = true, paramLabel = "FILE", description = "JSON lines; - for standard input.")
    String input = "";

    @Option(names = "--output", required = true, paramLabel = "FILE", description = "JSON lines; - for standard output.")
    String output = "";

    @Option(names = "--decode", description = "Turns ids into text.")
    boolean decode;

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    TokenizeCommand() {}

    @Override
    public Integer call() throws Exception {
        options.config();
        List<JsonLines.Line> lines = JsonLines.read(input);
        TextCodec codec = options.codec();
        int bad = 0;
        try (OutputFile file = OutputFile.open(output)) {
            for (JsonLines.Line line : lines) {
                ObjectNode result = JsonLines.mapper().createObjectNode();
                result.set("id", line.id());
                try {
                    fill(codec, line, result);
                } catch (InvalidRequestException e) {
                    bad++;
                    result.putObject("error").put("code", e.code()).put("message", e.getMessage());
                }
                file.write(result);
            }
            file.commit();
        }
        if (bad > 0) {
            spec.commandLine()
                    .getErr()
                    .println("millrace tokenize: " + bad + " of " + lines.size()
                            + " lines could not be served; see their error");
        }
        return bad == 0 ? 0 : 1;
    }

    private void fill(TextCodec codec, JsonLines.Line line, ObjectNode result) {
        if (decode) {
            List<Integer> ids = line.ids("ids");
            if (ids == null) {
                throw line.problem("ids: expected an array of token ids, got nothing");
            }
            result.put("text", codec.decode(ids.stream().mapToInt(i -> i).toArray()));
            return;
        }
        String text = line.text("text");
        if ((text == null) == (line.value("messages") == null)) {
            throw line.problem("expected exactly one of text and messages; for ids use --decode");
        }
        if (text != null) {
            ids(result, codec.encode(text, true));
            return;
        }
        TextCodec.Rendering rendering = codec.render(RequestLines.messages(line), RequestLines.options(line));
        ids(result, rendering.ids());
        result.put("prompt", rendering.text());
    }

    private static void ids(ObjectNode result, int[] ids) {
        ArrayNode array = result.putArray("ids");
        for (int id : ids) {
            array.add(id);
        }
    }
}
