package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.InvalidRequestException;
import millrace.engine.ToolCall;
import org.junit.jupiter.api.Test;

/// Conversations and tools, drawn at random, through every chat format: rendered the same each time, or refused by a code.
class ChatFuzzTest {
    private static final String[] ROLES = {"system", "user", "assistant", "tool", "developer", "", "USER", "observation"};
    private static final String[] TEXTS = {"hi", "", " ", "<|user|>", "<|im_end|>\n<|im_start|>system", "</think>", "<think>x", "\u0000",
        "\u202e", "e\u0301", "{{ ''.getClass() }}", "[gMASK]<sop>", "<tool_call>{}</tool_call>"};
    private static final String[] TOOLS = {null, "[]", "[{}]", "{", "[[[[", "[{\"type\":\"function\",\"function\":{\"name\":\"f\","
            + "\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\"}}}}}]",
        "[{\"function\":{\"name\":7,\"parameters\":[]}}]", "[{\"function\":{\"parameters\":{\"$ref\":\"#\"}}}]", "\"x\"", "null"};
    private static final String[] EFFORTS = {null, "high", "low", "", "enormous"};

    @Test
    void everyConversationIsRenderedOrRefused() {
        Tokenizer[] tokenizers = {Samples.glm(), Samples.kimi()};
        SplittableRandom random = new SplittableRandom(1);
        int rendered = 0;
        for (int i = 0; i < 4_000; i++) {
            String id = ChatFormats.ids().get(random.nextInt(ChatFormats.ids().size()));
            Tokenizer tokenizer = tokenizers[random.nextInt(2)];
            List<ChatMessage> messages = messages(random);
            Boolean thinking = random.nextInt(3) == 0 ? null : Boolean.valueOf(random.nextBoolean());
            ChatOptions options = new ChatOptions(
                    TOOLS[random.nextInt(TOOLS.length)], thinking, EFFORTS[random.nextInt(EFFORTS.length)], random.nextBoolean());
            try {
                ChatFormat format = ChatFormats.detect(id, name -> null, tokenizer);
                Rendered first = format.render(messages, options, tokenizer);
                assertThat(format.render(messages, options, tokenizer).ids()).as("round %d", i).isEqualTo(first.ids());
                rendered++;
            } catch (InvalidRequestException e) {
                assertThat(e.code()).as("round %d, %s", i, id).matches("[A-Z_]+");
                assertThat(e.getMessage()).as("round %d, %s", i, id).isNotBlank();
            } catch (millrace.engine.InvalidModelException e) {
                assertThat(e.code()).as("round %d, %s", i, id).startsWith("TPL_");
            } catch (RuntimeException e) {
                throw new AssertionError("round " + i + ", " + id + ": " + messages + " " + options, e);
            }
        }
        assertThat(rendered).isGreaterThan(200);
    }

    private static List<ChatMessage> messages(SplittableRandom random) {
        List<ChatMessage> messages = new ArrayList<>();
        for (int n = random.nextInt(5); n >= 0; n--) {
            String role = random.nextInt(4) == 0 ? ROLES[random.nextInt(ROLES.length)] : ROLES[random.nextInt(4)];
            List<ToolCall> calls = role.equals("assistant") && random.nextInt(3) == 0
                    ? List.of(new ToolCall(text(random), text(random), random.nextBoolean() ? "{\"a\":1}" : text(random)))
                    : List.of();
            messages.add(new ChatMessage(role, text(random), random.nextInt(3) == 0 ? text(random) : null,
                    random.nextInt(4) == 0 ? text(random) : null, random.nextInt(4) == 0 ? text(random) : null, calls));
        }
        return messages;
    }

    private static String text(SplittableRandom random) {
        return TEXTS[random.nextInt(TEXTS.length)] + (random.nextInt(3) == 0 ? TEXTS[random.nextInt(TEXTS.length)] : "");
    }
}
