package millrace.integrity;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import millrace.schemas.Completion;
import millrace.schemas.Reply;
import millrace.schemas.TokenLogprob;
import millrace.schemas.ToolCall;
import millrace.schemas.TopLogprob;
import org.jspecify.annotations.Nullable;

/// What a completion says beside its text, as one sequence of bytes: reply, then log probabilities. docs/audit-format.md has
/// the form; every length stands before what it measures, so that no two replies have the same bytes.
public final class ReplyForm {
    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    private ReplyForm() {}

    /// The commitment to what a completion says beside its text; null where it says nothing.
    ///
    /// @param salt 32 bytes
    public static @Nullable Digest commit(byte[] salt, Completion completion) {
        return commit(salt, completion.getReply(), completion.getLogprobs());
    }

    /// The same of its parts.
    public static @Nullable Digest commit(byte[] salt, @Nullable Reply reply, @Nullable List<TokenLogprob> logprobs) {
        return reply == null && logprobs == null ? null : Commitment.commit(Commitment.Kind.REPLY, salt, encode(reply, logprobs));
    }

    /// The bytes that the commitment is to.
    public static byte[] encode(@Nullable Reply reply, @Nullable List<TokenLogprob> logprobs) {
        ReplyForm form = new ReplyForm();
        form.out.write(reply == null ? 0 : 1);
        if (reply != null) {
            form.reply(reply);
        }
        form.out.write(logprobs == null ? 0 : 1);
        if (logprobs != null) {
            form.number(logprobs.size());
            logprobs.forEach(form::token);
        }
        return form.out.toByteArray();
    }

    private void reply(Reply reply) {
        text(reply.getContent());
        String reasoning = reply.getReasoningContent();
        out.write(reasoning == null ? 0 : 1);
        if (reasoning != null) {
            text(reasoning);
        }
        number(reply.getToolCalls().size());
        for (ToolCall call : reply.getToolCalls()) {
            text(call.getId());
            text(call.getName());
            text(call.getArguments());
        }
    }

    private void token(TokenLogprob token) {
        likely(token.getTokenId(), token.getBytes(), token.getLogprob());
        number(token.getTop().size());
        for (TopLogprob top : token.getTop()) {
            likely(top.getTokenId(), top.getBytes(), top.getLogprob());
        }
    }

    private void likely(int id, ByteBuffer bytes, float logprob) {
        number(id);
        bytes(Buffers.bytes(bytes));
        number(Float.floatToRawIntBits(logprob));
    }

    private void text(String text) {
        bytes(text.getBytes(StandardCharsets.UTF_8));
    }

    private void bytes(byte[] bytes) {
        number(bytes.length);
        out.writeBytes(bytes);
    }

    private void number(int number) {
        out.writeBytes(ByteBuffer.allocate(Integer.BYTES).putInt(number).array());
    }
}
