package millrace.integrity;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import millrace.schemas.Reply;
import millrace.schemas.TokenLogprob;
import millrace.schemas.ToolCall;
import millrace.schemas.TopLogprob;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class ReplyFormTest {
    private final Set<String> seen = new HashSet<>();
    private int count;

    @Test
    void whatSaysNothingHasNoCommitment() {
        assertThat(ReplyForm.commit(TestLog.SALT, null, null)).isNull();
        assertThat(ReplyForm.commit(TestLog.SALT, null, List.of())).isNotNull();
    }

    /// Texts that move from one field to the next one, or from one list to another, are not the same.
    @Test
    void noTwoRepliesHaveTheSameBytes() {
        add(null, null);
        add(null, List.of());
        add(reply("", null), null);
        add(reply("", null), List.of());
        add(reply("", ""), null);
        add(reply("ab", null), null);
        add(reply("a", "b"), null);
        add(reply("", "ab"), null);
        add(reply("a", null, new ToolCall("b", "", "")), null);
        add(reply("a", null, new ToolCall("", "b", "")), null);
        add(reply("a", null, new ToolCall("", "", "b")), null);
        add(reply("a", null, new ToolCall("b", "", ""), new ToolCall("", "", "")), null);
        add(null, List.of(token(1, "", 0f)));
        add(null, List.of(token(1, "", -0f)));
        add(null, List.of(token(1, "a", 0f)));
        add(null, List.of(token(1, "", 0f), token(1, "", 0f)));
        add(null, List.of(token(1, "", 0f, new TopLogprob(1, ByteBuffer.allocate(0), 0f))));
        add(null, List.of(token(1, "", 0f, new TopLogprob(1, ByteBuffer.wrap(new byte[] {0}), 0f))));
        assertThat(seen).hasSize(count);
    }

    @Test
    void encodingLeavesTheRecordAsItIs() {
        List<TokenLogprob> logprobs = TestLog.logprobs(1);
        byte[] once = ReplyForm.encode(null, logprobs);
        assertThat(ReplyForm.encode(null, logprobs)).isEqualTo(once);
    }

    private static Reply reply(String content, @Nullable String reasoning, ToolCall... calls) {
        return new Reply(content, reasoning, List.of(calls));
    }

    private static TokenLogprob token(int id, String bytes, float logprob, TopLogprob... top) {
        return new TokenLogprob(id, ByteBuffer.wrap(bytes.getBytes(java.nio.charset.StandardCharsets.UTF_8)), logprob, List.of(top));
    }

    private void add(@Nullable Reply reply, @Nullable List<TokenLogprob> logprobs) {
        seen.add(java.util.HexFormat.of().formatHex(ReplyForm.encode(reply, logprobs)));
        count++;
    }
}
