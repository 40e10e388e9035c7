package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Against ids that independent implementations made.
class TokenizerGoldenTest {
    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void encodesAndDecodesAsTheReferencesDo(String model) {
        Tokenizer tokenizer = Tokenizers.load(Samples.files(model));
        for (JsonNode line : Samples.lines(model + "/cases.jsonl")) {
            String text = line.path("text").asText();
            int[] ids = Samples.ids(line.path("ids"));
            assertThat(tokenizer.encode(text, true)).as(text).isEqualTo(ids);
            assertThat(tokenizer.decode(ids)).isEqualTo(text);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void rendersConversationsAndCompletionsAsTheReferencesDo(String model) {
        TokenizerFiles files = Samples.files(model);
        Tokenizer tokenizer = Tokenizers.load(files);
        ChatFormat format = ChatFormats.detect(null, files, tokenizer);
        for (JsonNode line : Samples.lines(model + "/prompts.jsonl")) {
            List<ChatMessage> messages = new ArrayList<>();
            line.path("messages")
                    .forEach(m -> messages.add(ChatMessage.of(
                            m.path("role").asText(), m.path("content").asText())));
            Rendered rendered = format.render(messages, ChatOptions.DEFAULT, tokenizer);
            assertThat(rendered.ids()).isEqualTo(Samples.ids(line.path("prompt_ids")));
            assertThat(tokenizer.decode(rendered.ids())).isEqualTo(rendered.text());
            IncrementalDecoder decoder = new IncrementalDecoder(tokenizer);
            StringBuilder completion = new StringBuilder();
            for (int id : Samples.ids(line.path("completion_ids"))) {
                completion.append(decoder.append(id));
            }
            assertThat(completion.append(decoder.flush()))
                    .hasToString(line.path("completion_text").asText());
        }
    }

    @Test
    void knowsItsTokens() {
        Tokenizer glm = Samples.glm();
        assertThat(glm.kind()).isEqualTo("tokenizer.json");
        assertThat(glm.vocabSize()).isEqualTo(1273);
        assertThat(glm.special("<|user|>")).isEqualTo(1268);
        assertThat(glm.special("<|nobody|>")).isNull();
        assertThat(glm.isSpecial(1268)).isTrue();
        assertThat(glm.isSpecial(65)).isFalse();
        assertThat(glm.bytes(1268)).isEmpty();
        assertThat(glm.bytes(65)).containsExactly('A');
        assertThat(glm.bytes(5000)).isEmpty();
        assertThat(glm.bytes(-1)).isEmpty();
        assertThat(glm.eosTokenIds()).containsExactly(1264);
        assertThat(glm.digest()).isEqualTo("dbffad1f8d2f74acc13fbe7c338372bb615589d37310f2bdac476ad71ae92dbc");
        assertThat(glm.addedTokens()).hasSize(9);
        Tokenizer kimi = Samples.kimi();
        assertThat(kimi.kind()).isEqualTo("tiktoken.model");
        assertThat(kimi.vocabSize()).isEqualTo(1280);
        assertThat(kimi.eosTokenIds()).containsExactly(1025, 1026);
        assertThat(kimi.special("<|reserved_token_1029|>")).isEqualTo(1029);
        assertThat(kimi.special("[PAD]")).isEqualTo(1279);
        assertThat(kimi.addedTokens()).hasSize(256);
    }
}
