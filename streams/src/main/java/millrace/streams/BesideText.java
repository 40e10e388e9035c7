package millrace.streams;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.TextEngine;
import millrace.integrity.Digest;
import millrace.integrity.ReplyForm;
import millrace.schemas.Hash;
import millrace.schemas.Reply;
import millrace.schemas.TokenLogprob;
import millrace.schemas.ToolCall;
import millrace.schemas.TopLogprob;
import org.jspecify.annotations.Nullable;

/// What a completion says beside its text, as its records have it.
///
/// @param reply null for a prompt that was no conversation, and where nothing was generated
/// @param logprobs null where the prompt wants none, and where nothing was generated
public record BesideText(@Nullable Reply reply, @Nullable List<TokenLogprob> logprobs) {
    static final BesideText NOTHING = new BesideText(null, null);

    public static BesideText of(TextEngine engine, PreparedPrompt prompt, GenerationResult result) {
        if (result.tokenIds().isEmpty()) {
            return NOTHING;
        }
        boolean wanted = prompt.request().logprobs() != GenerationRequest.NO_LOGPROBS;
        return new BesideText(reply(engine, prompt, result.text()), wanted ? logprobs(engine, result.logprobs()) : null);
    }

    /// The reading of a text as the answer to a prompt; null for a prompt that was no conversation.
    static @Nullable Reply reply(TextEngine engine, PreparedPrompt prompt, String text) {
        return prompt.request().input() instanceof PromptInput.Messages ? record(engine.replies(prompt).read(text)) : null;
    }

    private static Reply record(millrace.engine.Reply reply) {
        List<ToolCall> calls = new ArrayList<>();
        for (millrace.engine.ToolCall call : reply.toolCalls()) {
            calls.add(new ToolCall(call.id(), call.name(), call.arguments()));
        }
        return new Reply(reply.content(), reply.reasoning(), calls);
    }

    private static List<TokenLogprob> logprobs(TextEngine engine, List<millrace.engine.TokenLogprob> logprobs) {
        List<TokenLogprob> records = new ArrayList<>(logprobs.size());
        for (millrace.engine.TokenLogprob one : logprobs) {
            List<TopLogprob> top = new ArrayList<>(one.top().size());
            for (millrace.engine.TokenLogprob.Top likely : one.top()) {
                top.add(new TopLogprob(likely.token(), ByteBuffer.wrap(engine.bytes(likely.token())), likely.logprob()));
            }
            records.add(new TokenLogprob(one.token(), ByteBuffer.wrap(engine.bytes(one.token())), one.logprob(), top));
        }
        return records;
    }

    /// The commitment to it; null where there is nothing.
    @Nullable Hash commit(byte[] salt) {
        Digest commitment = ReplyForm.commit(salt, reply, logprobs);
        return commitment == null ? null : commitment.toHash();
    }
}
