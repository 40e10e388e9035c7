package millrace.streams;

import static millrace.streams.ServiceDriver.prompt;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import millrace.engine.FinishReason;
import millrace.engine.GenerationResult;
import millrace.engine.PreparedPrompt;
import millrace.engine.Reply;
import millrace.engine.ReplyPart;
import millrace.engine.ReplyReader;
import millrace.engine.Timings;
import millrace.engine.TokenLogprob;
import millrace.engine.ToolCall;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import millrace.integrity.Commitment;
import millrace.integrity.ReplyForm;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Completion;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What completions carry beside their text, and that the log commits to it: each test's log is verified, with its
/// completions.
class BesideTextTest {
    @TempDir
    private Path directory;

    private ServiceDriver service;

    @BeforeEach
    void start() {
        service = new ServiceDriver(directory, Map.of("intake.max.bytes", "20000"));
        service.engine.replies = prompt -> new Shouting();
    }

    @AfterEach
    void theLogVerifies() {
        service.verify();
        service.close();
    }

    private static Prompt.Builder chat(String id, String question) {
        Message message = Message.newBuilder().setRole("user").setContent(question).setToolCalls(List.of()).build();
        return Prompt.newBuilder().setRequestId(id).setMessages(List.of(message));
    }

    private void end(String id, String text, List<TokenLogprob> logprobs) {
        List<Integer> ids = logprobs.stream().map(TokenLogprob::token).toList();
        service.engine.end(id, new GenerationResult(text, ids.isEmpty() ? List.of(7) : ids, FinishReason.STOP, new Usage(1, 1, 0),
                Timings.NONE, null, null, new Transcript(1, true, 0, 1, 0, 0, 0, List.of()), logprobs));
        service.turn();
    }

    private static List<TokenLogprob> logprobs(int tokens) {
        List<TokenLogprob> all = new ArrayList<>();
        for (int i = 0; i < tokens; i++) {
            all.add(new TokenLogprob(2, -0.5f, List.of(new TokenLogprob.Top(2, -0.5f), new TokenLogprob.Top(4, -1.5f))));
        }
        return all;
    }

    private void opens(Completion completion, AttestationRecord leaf) {
        byte[] salt = completion.getSalt().array();
        assertThat(ReplyForm.commit(salt, completion).matches(leaf.getReplyCommit())).isTrue();
    }

    @Test
    void aConversationIsAnsweredWithAReplyAndItsLogProbabilities() {
        service.send(chat("r-1", "q").setLogprobs(2).setResponseFormat("{ \"type\": \"json_object\" }").build());
        end("r-1", "aloud", logprobs(1));
        Completion completion = service.completion(0);
        assertThat(completion.getText()).isEqualTo("aloud");
        assertThat(completion.getReply().getContent()).isEqualTo("ALOUD");
        assertThat(completion.getReply().getReasoningContent()).isEqualTo("5 characters");
        assertThat(completion.getReply().getToolCalls())
                .containsExactly(new millrace.schemas.ToolCall("call_0", "shout", "{}"));
        millrace.schemas.TokenLogprob token = completion.getLogprobs().getFirst();
        assertThat(completion.getLogprobs()).hasSize(1);
        assertThat(token.getTokenId()).isEqualTo(2);
        assertThat(token.getLogprob()).isEqualTo(-0.5f);
        assertThat(StandardCharsets.UTF_8.decode(token.getBytes().duplicate()).toString()).isEqualTo("c");
        assertThat(token.getTop()).extracting(millrace.schemas.TopLogprob::getLogprob).containsExactly(-0.5f, -1.5f);
        assertThat(StandardCharsets.UTF_8.decode(token.getTop().get(1).getBytes().duplicate()).toString()).isEqualTo("e");
        opens(completion, service.leaf(0));
        assertThat(Commitment.guide(completion.getSalt().array(), "{ \"type\": \"json_object\" }")
                .matches(service.leaf(0).getGuideCommit())).as("the format as it was written").isTrue();
    }

    @Test
    void whatWasNotAskedForIsNotThere() {
        service.send(chat("r-1", "q").setResponseFormat("{\"type\":\"text\"}").build());
        end("r-1", "aloud", List.of());
        assertThat(service.completion(0).getReply()).isNotNull();
        assertThat(service.completion(0).getLogprobs()).isNull();
        opens(service.completion(0), service.leaf(0));
        assertThat(service.leaf(0).getGuideCommit()).isNull();
    }

    @Test
    void rawPromptsHaveNoReply() {
        service.send(prompt("r-1", "q").build());
        service.send(prompt("r-2", "q").setLogprobs(0).build());
        end("r-1", "aloud", List.of());
        end("r-2", "aloud", logprobs(1));
        assertThat(service.completion(0).getReply()).isNull();
        assertThat(service.leaf(0).getReplyCommit()).isNull();
        assertThat(service.completion(1).getReply()).isNull();
        assertThat(service.completion(1).getLogprobs()).hasSize(1);
        opens(service.completion(1), service.leaf(1));
    }

    @Test
    void whereNothingWasGeneratedThereIsNothingBeside() {
        service.send(chat("r-1", "q").setLogprobs(1).build());
        PreparedPrompt prepared = service.engine.submitted.getFirst().prompt;
        service.engine.end("r-1", Outcome.Answered.nothing(prepared, FinishReason.DEADLINE));
        service.turn();
        assertThat(service.completion(0).getReply()).isNull();
        assertThat(service.completion(0).getLogprobs()).isNull();
        assertThat(service.leaf(0).getReplyCommit()).isNull();
    }

    @Test
    void logProbabilitiesCountForTheSizeOfTheRecord() {
        service.send(chat("r-1", "q").setLogprobs(2).build());
        end("r-1", "aloud", logprobs(2_000));
        assertThat(service.completion(0).getErrorCode()).isEqualTo("RESULT_TOO_LARGE");
        assertThat(service.completion(0).getReply()).isNull();
        assertThat(service.completion(0).getLogprobs()).isNull();
        assertThat(service.leaf(0).getReplyCommit()).isNull();
    }

    /// A chat format of its own: the content is the text in capitals, the reasoning counts it, and there is always a call.
    private static final class Shouting implements ReplyReader {
        private final StringBuilder text = new StringBuilder();

        @Override
        public List<ReplyPart> feed(String delta) {
            text.append(delta);
            return List.of();
        }

        @Override
        public List<ReplyPart> end() {
            return List.of();
        }

        @Override
        public Reply reply() {
            return new Reply(text.toString().toUpperCase(java.util.Locale.ROOT), text.length() + " characters",
                    List.of(new ToolCall("call_0", "shout", "{}")));
        }
    }
}
